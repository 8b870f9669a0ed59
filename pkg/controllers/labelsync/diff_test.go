package labelsync

import (
	"reflect"
	"testing"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

const strategy = maintenance.LabelStrategy

func settings(t testing.TB, further ...string) Settings {
	t.Helper()
	s, err := NewSettings(further, DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type set = map[string]string

func TestAVMIFollowsItsVMInTheListedKeys(t *testing.T) {
	for name, c := range map[string]struct {
		vm, vmi set
		want    changes
	}{
		"nothing on either":         {},
		"the same":                  {vm: set{strategy: "Shutdown"}, vmi: set{strategy: "Shutdown"}},
		"set":                       {vm: set{strategy: "Shutdown"}, vmi: set{"a": "b"}, want: changes{strategy: "Shutdown"}},
		"changed":                   {vm: set{strategy: "Migrate"}, vmi: set{strategy: "Shutdown"}, want: changes{strategy: "Migrate"}},
		"a wrong value is a value":  {vm: set{strategy: "foobar"}, vmi: set{strategy: "Shutdown"}, want: changes{strategy: "foobar"}},
		"an empty value is a value": {vm: set{strategy: ""}, want: changes{strategy: ""}},
		"removed":                   {vmi: set{strategy: "Shutdown", "kubevirt.io/nodeName": "w1"}, want: changes{strategy: nil}},
		"a further key":             {vm: set{"example.com/tier": "gold"}, want: changes{"example.com/tier": "gold"}},
		"a further key, removed":    {vmi: set{"example.com/tier": "gold"}, want: changes{"example.com/tier": nil}},
		"several at once":           {vm: set{strategy: "Shutdown"}, vmi: set{"example.com/tier": "gold"}, want: changes{strategy: "Shutdown", "example.com/tier": nil}},
		"keys that are not listed, Harvester's among them": {vm: set{"harvesterhci.io/os": "linux", "tier": "gold"}, vmi: set{"harvesterhci.io/creator": "harvester"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings(t, "example.com/tier")
			if got := s.toVMI(c.vm, c.vmi); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAPodFollowsItsVMIInTheLabelsWithThePrefix(t *testing.T) {
	const tier, other = "harvesterhci.io/tier", "harvesterhci.io/other"
	copied := func(keys string) set { return set{maintenance.AnnotationCopied: keys} }
	for name, c := range map[string]struct {
		vmi, labels, annotations set
		// before is what a predecessor of the pod says; "" for no predecessor.
		before      string
		want        changes
		wantsCopied any
	}{
		"nothing on either": {},
		"the same":          {vmi: set{strategy: "Shutdown", tier: "gold"}, labels: set{strategy: "Shutdown", tier: "gold"}},
		"the same, and remembered": {
			vmi: set{tier: "gold"}, labels: set{tier: "gold"}, annotations: copied(tier),
		},
		"set": {
			vmi: set{strategy: "Shutdown"}, labels: set{"kubevirt.io": "virt-launcher"},
			want: changes{strategy: "Shutdown"}, wantsCopied: strategy,
		},
		"another key is set later": {
			vmi: set{strategy: "Shutdown", tier: "gold"}, labels: set{strategy: "Shutdown"}, annotations: copied(strategy),
			want: changes{tier: "gold"}, wantsCopied: strategy + "," + tier,
		},
		"changed: what is remembered stays as it is": {
			vmi: set{strategy: "Migrate"}, labels: set{strategy: "Shutdown"}, annotations: copied(strategy),
			want: changes{strategy: "Migrate"},
		},
		"changed, and set by KubeVirt before": {
			vmi: set{tier: "gold"}, labels: set{tier: "silver"},
			want: changes{tier: "gold"}, wantsCopied: tier,
		},
		"a listed key is removed whoever set it": {
			labels: set{strategy: "Shutdown"}, want: changes{strategy: nil},
		},
		"a listed key that was copied is removed": {
			labels: set{strategy: "Shutdown", tier: "gold"}, vmi: set{tier: "gold"}, annotations: copied(strategy + "," + tier),
			want: changes{strategy: nil}, wantsCopied: tier,
		},
		"a key that was copied is removed": {
			labels: set{tier: "gold", other: "x"}, annotations: copied(tier),
			want: changes{tier: nil}, wantsCopied: "",
		},
		"a key that was not copied stays":                    {labels: set{other: "x"}},
		"one that others put on the pod stays when one goes": {labels: set{other: "x", tier: "gold"}, annotations: copied(tier), want: changes{tier: nil}, wantsCopied: ""},
		"after a migration, what the predecessor knew": {
			labels: set{tier: "gold", other: "x"}, before: tier,
			want: changes{tier: nil}, wantsCopied: "",
		},
		"after a migration, the pod knows for itself": {
			labels: set{tier: "gold"}, annotations: copied(""), before: tier,
		},
		"labels of others are not copied": {
			vmi: set{"kubevirt.io/nodeName": "w1", "app": "shop", "harvesterhci.io.example.com/x": "y", "example.com/tier": "gold"},
		},
		"a listed key without the prefix ends at the VMI": {
			vmi: set{strategy: "Shutdown"}, labels: set{strategy: "Shutdown", "example.com/tier": "gold"},
		},
		"what is not covered is not remembered": {
			vmi: set{tier: "gold"}, annotations: copied("app"), want: changes{tier: "gold"}, wantsCopied: tier,
		},
		"the annotation cannot name what is not covered": {
			labels: set{"kubevirt.io/created-by": "u", "app": "shop"}, annotations: copied("kubevirt.io/created-by,app"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings(t, "example.com/tier")
			labels, annotations := s.toPod(c.vmi, pod{c.labels, c.annotations}, func() []pod {
				if c.before == "" {
					return nil
				}
				return []pod{{annotations: copied(c.before)}}
			})
			if !reflect.DeepEqual(labels, c.want) {
				t.Errorf("labels: got %v, want %v", labels, c.want)
			}
			var want changes
			if c.wantsCopied != nil {
				want = changes{maintenance.AnnotationCopied: c.wantsCopied}
			}
			if !reflect.DeepEqual(annotations, want) {
				t.Errorf("annotations: got %v, want %v", annotations, want)
			}
		})
	}
}

func TestTheStrategyIsTheFirstKeyWhateverElseIsListed(t *testing.T) {
	for name, c := range map[string]struct{ further, want []string }{
		"alone":         {nil, []string{strategy}},
		"others follow": {[]string{"example.com/tier", "app"}, []string{strategy, "example.com/tier", "app"}},
		"named again":   {[]string{"app", strategy, "app"}, []string{strategy, "app"}},
	} {
		if got, err := Keys(c.further); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}
