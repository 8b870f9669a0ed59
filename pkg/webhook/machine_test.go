package webhook

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

func TestAVirtualMachineIsCompleted(t *testing.T) {
	for name, test := range map[string]struct{ old, now, want string }{
		"no label, no maps at all": {
			now:  `{"metadata":{"name":"a"},"spec":{"template":{"spec":{}}}}`,
			want: `{"metadata":{"name":"a","labels":{"STRATEGY":"Migrate"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{}}}}`,
		},
		"no label, maps that are null": {
			now:  `{"metadata":{"labels":null},"spec":{"template":{"metadata":null,"spec":{}}}}`,
			want: `{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{}}}}`,
		},
		"no label, template labels that are null": {
			now:  `{"metadata":{"labels":{}},"spec":{"template":{"metadata":{"labels":null,"annotations":{"a":"b"}}}}}`,
			want: `{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Migrate"},"annotations":{"a":"b"}}}}}`,
		},
		"other labels are left": {
			now:  `{"metadata":{"labels":{"a/b~c":"d"}},"spec":{"template":{"metadata":{"labels":{"e":"f"}}}}}`,
			want: `{"metadata":{"labels":{"a/b~c":"d","STRATEGY":"Migrate"}},"spec":{"template":{"metadata":{"labels":{"e":"f","STRATEGY":"Migrate"}}}}}`,
		},
		"a label is copied": {
			now:  `{"metadata":{"labels":{"STRATEGY":"Shutdown"}},"spec":{"template":{}}}`,
			want: `{"metadata":{"labels":{"STRATEGY":"Shutdown"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Shutdown"}}}}}`,
		},
		"the VM's label is the truth": {
			old:  `{"metadata":{}}`,
			now:  `{"metadata":{"labels":{"STRATEGY":"Shutdown"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Migrate"}}}}}`,
			want: `{"metadata":{"labels":{"STRATEGY":"Shutdown"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Shutdown"}}}}}`,
		},
		"the template's label alone is none": {
			now:  `{"metadata":{},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Shutdown"}}}}}`,
			want: `{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Migrate"}}}}}`,
		},
		"a wrong label is not changed": {
			old:  `{"metadata":{}}`,
			now:  `{"metadata":{"labels":{"STRATEGY":"foobar"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"foobar"}}}}}`,
			want: `{"metadata":{"labels":{"STRATEGY":"foobar"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"foobar"}}}}}`,
		},
		"a label that was removed is Migrate": {
			old:  `{"metadata":{"labels":{"STRATEGY":"Shutdown"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Shutdown"}}}}}`,
			now:  `{"metadata":{},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Shutdown"}}}}}`,
			want: `{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{"template":{"metadata":{"labels":{"STRATEGY":"Migrate"}}}}}`,
		},
		"no template": {
			now:  `{"metadata":{},"spec":{}}`,
			want: `{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{}}`,
		},
		"no spec": {
			now:  `{"metadata":{}}`,
			want: `{"metadata":{"labels":{"STRATEGY":"Migrate"}}}`,
		},
		"one that is being deleted is left alone": {
			old:  `{"metadata":{}}`,
			now:  `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"template":{}}}`,
			want: `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"template":{}}}`,
		},
		"what is not Drydock's business may have any form": {
			now:  `{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{"running":true,"template":{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{"domain":7,"volumes":"new"}}}}`,
			want: `{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{"running":true,"template":{"metadata":{"labels":{"STRATEGY":"Migrate"}},"spec":{"domain":7,"volumes":"new"}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := handler(maintenance.Plain, roster{}, NewHomes())
			now := words(test.now)
			got := patched(t, now, review{path: PathMutateVirtualMachines, user: alice, old: words(test.old), now: now}.send(t, h))
			if !sameJSON(t, got, words(test.want)) {
				t.Errorf("stored as %s, want %s", got, words(test.want))
			}
			if again := (review{path: PathMutateVirtualMachines, user: alice, old: words(test.old), now: got}).send(t, h); again.Patch != nil {
				t.Errorf("asked again, it patches %s", again.Patch)
			}
		})
	}
}

func TestWhoStartsAVMThatWaitsTakesItOver(t *testing.T) {
	record := func(starting bool) string {
		r := maintenance.VMRecord{ID: "m", Node: "n1", NodeUID: "u", Restart: maintenance.RestartAfterDisable, Source: maintenance.SourceLabel, RunStrategy: "Always", Starting: starting}
		return strings.ReplaceAll(r.Encode(), `"`, `\"`)
	}
	waiting, starting := record(false), record(true)
	vm := func(spec, record, requests string) string {
		annotations := `"MARKER":"n1","other":"x","RECORD":"` + record + `"`
		if record == "" {
			annotations = `"MARKER":"n1","other":"x"`
		}
		return words(`{"metadata":{"labels":{"STRATEGY":"ShutdownAndRestartAfterDisable"},"annotations":{` + annotations + `}},"spec":{` + spec +
			`,"template":{"metadata":{"labels":{"STRATEGY":"ShutdownAndRestartAfterDisable"}}}},"status":{"stateChangeRequests":[` + requests + `]}}`)
	}
	const (
		off, on         = `"runStrategy":"Halted"`, `"runStrategy":"Always"`
		offOld, onOld   = `"running":false`, `"running":true`
		start, pausedly = `{"action":"Start"}`, `{"action":"Start","data":{"paused":"true"}}`
	)
	for name, test := range map[string]struct {
		user, old, now string
		kept           bool
	}{
		"a user":                    {user: alice, old: vm(off, waiting, ""), now: vm(on, waiting, "")},
		"a user, with spec.running": {user: alice, old: vm(offOld, waiting, ""), now: vm(onOld, waiting, "")},
		"a user, from spec.running to runStrategy":   {user: alice, old: vm(offOld, waiting, ""), now: vm(`"runStrategy":"Manual"`, waiting, "")},
		"virtctl start, which virt-api writes":       {user: virtAPI, old: vm(off, waiting, ""), now: vm(on, waiting, "")},
		"a paused start, which virt-controller does": {user: virtController, old: vm(off, waiting, pausedly), now: vm(on, waiting, pausedly)},
		"a marker that is not Drydock's":             {user: alice, old: vm(off, "", ""), now: vm(on, "", "")},
		"a record that cannot be read":               {user: alice, old: vm(off, "{", ""), now: vm(on, "{", "")},
		"a VM that Drydock had started, and its owner had stopped": {
			user: alice, old: vm(off, starting, ""), now: vm(on, starting, "")},
		"Harvester, which takes the marker off itself": {
			user: alice, old: vm(off, waiting, ""), now: strings.Replace(vm(on, waiting, ""), words(`"MARKER":"n1",`), "", 1), kept: true},
		"Drydock itself":                           {user: drydock, old: vm(off, waiting, ""), now: vm(on, starting, ""), kept: true},
		"Drydock under another name":               {user: alice, old: vm(off, waiting, ""), now: vm(on, starting, ""), kept: true},
		"virt-controller, for a request left over": {user: virtController, old: vm(off, waiting, start), now: vm(on, waiting, start), kept: true},
		"nobody: it stays off":                     {user: alice, old: vm(off, waiting, ""), now: vm(offOld, waiting, ""), kept: true},
		"nobody: it is being stopped":              {user: alice, old: vm(on, waiting, ""), now: vm(off, waiting, ""), kept: true},
		"nobody: it runs":                          {user: alice, old: vm(on, starting, ""), now: vm(`"runStrategy":"Manual"`, starting, ""), kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := patched(t, test.now, review{path: PathMutateVirtualMachines, user: test.user, old: test.old, now: test.now}.send(t, handler(maintenance.Plain, roster{}, NewHomes())))
			if has := strings.Contains(got, maintenance.AnnotationMarker); has != (test.kept && strings.Contains(test.now, maintenance.AnnotationMarker)) {
				t.Errorf("the marker is there: %t: %s", has, got)
			}
			if strings.Contains(got, maintenance.AnnotationVMRecord) != strings.Contains(test.now, maintenance.AnnotationVMRecord) {
				t.Errorf("the record, which tells what to do until it runs, was touched: %s", got)
			}
			if !strings.Contains(got, `"other":"x"`) {
				t.Errorf("another's annotation is gone: %s", got)
			}
		})
	}
}

func TestOnlyAWrongStrategyThatIsWrittenNowIsRefused(t *testing.T) {
	vm := func(labels string) string { return words(`{"metadata":{"labels":{` + labels + `}},"spec":{"a":1}}`) }
	const field = "metadata.labels[harvesterhci.io/maintain-mode-strategy]: invalid maintenance mode strategy: "
	for name, test := range map[string]struct{ old, now, refusal string }{
		"created with foobar":        {now: vm(`"STRATEGY":"foobar"`), refusal: field + "foobar"},
		"created in the wrong case":  {now: vm(`"STRATEGY":"shutdown"`), refusal: field + "shutdown"},
		"created with a blank":       {now: vm(`"STRATEGY":" Shutdown"`), refusal: field + " Shutdown"},
		"created with nothing in it": {now: vm(`"STRATEGY":""`), refusal: field + `""`},
		"created without":            {now: vm(``)},
		"created with Migrate":       {now: vm(`"STRATEGY":"Migrate"`)},
		"changed to foobar":          {old: vm(`"STRATEGY":"Shutdown"`), now: vm(`"STRATEGY":"foobar"`), refusal: field + "foobar"},
		"foobar is added":            {old: vm(``), now: vm(`"STRATEGY":"foobar"`), refusal: field + "foobar"},
		"an empty one is added":      {old: vm(``), now: vm(`"STRATEGY":""`), refusal: field + `""`},
		"from one wrong to another":  {old: vm(`"STRATEGY":"foobar"`), now: vm(`"STRATEGY":"foo"`), refusal: field + "foo"},
		"an old wrong one is there":  {old: vm(`"STRATEGY":"foobar"`), now: vm(`"STRATEGY":"foobar","a":"b"`)},
		"a wrong one is corrected":   {old: vm(`"STRATEGY":"foobar"`), now: vm(`"STRATEGY":"Shutdown"`)},
		"a wrong one is removed":     {old: vm(`"STRATEGY":"foobar"`), now: vm(``)},
		"a wrong one in one that is being deleted": {
			old: vm(``), now: words(`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"STRATEGY":"foobar"}}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			response := review{path: PathValidateVirtualMachines, old: test.old, now: test.now}.send(t, handler(maintenance.Plain, roster{}, NewHomes()))
			if response.Allowed != (test.refusal == "") {
				t.Fatalf("answered %+v", response)
			}
			if test.refusal == "" {
				return
			}
			want := test.refusal + "; valid values are Migrate, ShutdownAndRestartAfterEnable, ShutdownAndRestartAfterDisable, Shutdown"
			if response.Result.Message != want || response.Result.Code != 422 {
				t.Errorf("refused with %d %q, want %q", response.Result.Code, response.Result.Message, want)
			}
		})
	}
}

func TestWhatIsUnwiseIsWarnedOfWhenItIsWritten(t *testing.T) {
	vm := func(strategy, spec string) string {
		return words(`{"metadata":{"labels":{"STRATEGY":"` + strategy + `"}},"spec":{` + spec + `}}`)
	}
	const none, external = `"template":{"spec":{"evictionStrategy":"None"}}`, `"template":{"spec":{"evictionStrategy":"External"}}`
	const live, manual = `"template":{"spec":{"evictionStrategy":"LiveMigrate"}}`, `"runStrategy":"Manual"`
	for name, test := range map[string]struct{ old, now, warns string }{
		"an old wrong value, and the spec is changed":      {old: vm("foobar", `"a":1`), now: vm("foobar", `"a":2`), warns: `"foobar" is no maintenance mode strategy`},
		"an old wrong value, and only metadata is changed": {old: vm("foobar", `"a":1`), now: words(`{"metadata":{"labels":{"STRATEGY":"foobar"},"annotations":{"x":"y"}},"spec":{"a":1}}`)},
		"Manual and Shutdown":                              {now: vm("Shutdown", manual), warns: "leaves spec.runStrategy Halted"},
		"Manual and a restart":                             {now: vm("ShutdownAndRestartAfterEnable", manual), warns: "only a start request brings it back"},
		"Manual and Migrate":                               {now: vm("Migrate", manual)},
		"a change to Manual":                               {old: vm("Shutdown", `"runStrategy":"Always"`), now: vm("Shutdown", manual), warns: "Manual"},
		"Manual for long, and something else is changed":   {old: vm("Shutdown", manual), now: vm("Shutdown", manual+`,"a":1`)},
		"Migrate and None":                                 {now: vm("Migrate", none), warns: "evictionStrategy None"},
		"Migrate and External":                             {now: vm("Migrate", external), warns: "evictionStrategy External"},
		"Migrate and LiveMigrate":                          {now: vm("Migrate", live)},
		"Shutdown and None":                                {now: vm("Shutdown", none)},
		"no label, which is Migrate, and None":             {now: words(`{"metadata":{},"spec":{` + none + `}}`), warns: "evictionStrategy None"},
		"a change to None":                                 {old: vm("Migrate", live), now: vm("Migrate", none), warns: "evictionStrategy None"},
		"a change to Migrate":                              {old: vm("Shutdown", none), now: vm("Migrate", none), warns: "evictionStrategy None"},
		"None for long, and something else is changed":     {old: vm("Migrate", none), now: vm("Migrate", none+`,"a":1`)},
	} {
		t.Run(name, func(t *testing.T) {
			response := review{path: PathValidateVirtualMachines, old: test.old, now: test.now}.send(t, handler(maintenance.Plain, roster{}, NewHomes()))
			got := strings.Join(response.Warnings, "\n")
			if !response.Allowed || !strings.Contains(got, test.warns) || test.warns == "" && got != "" {
				t.Errorf("allowed %t with the warnings %q, want %q", response.Allowed, got, test.warns)
			}
			for _, warning := range response.Warnings {
				if len(warning) > 256 {
					t.Errorf("the API server cuts off a warning of %d characters: %s", len(warning), warning)
				}
			}
		})
	}
}
