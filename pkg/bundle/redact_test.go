package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// secretFields are where people keep what nobody else may see, in objects that a bundle
// reads. Each stands for all below it.
var secretFields = map[string][]string{
	"virtualmachines": {
		"metadata.managedFields", "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration", "metadata.annotations.field.cattle.io/description",
		"metadata.annotations.drydock.dev/requested-by", "metadata.annotations.harvesterhci.io/sshNames",
		"spec.template.metadata.annotations", "spec.template.spec.accessCredentials", "spec.template.spec.hostname", "spec.template.spec.dnsConfig", "spec.template.spec.networks",
		"spec.template.spec.volumes[].cloudInitNoCloud", "spec.template.spec.volumes[].cloudInitConfigDrive", "spec.template.spec.volumes[].sysprep",
		"spec.template.spec.volumes[].secret", "spec.template.spec.volumes[].configMap", "spec.template.spec.volumes[].containerDisk",
		"spec.template.spec.domain.firmware", "spec.template.spec.domain.devices.interfaces", "spec.template.spec.domain.devices.disks",
		"spec.dataVolumeTemplates", "status.volumeRequests", "status.somethingNew",
	},
	"virtualmachineinstances": {
		"spec.accessCredentials", "spec.volumes[].cloudInitNoCloud", "spec.volumes[].serviceAccount", "spec.domain.firmware.kernelBoot",
		"status.interfaces", "status.guestOSInfo", "status.migrationState.targetNodeAddress", "status.migrationState.targetDirectMigrationNodePorts",
	},
	"virtualmachineinstancemigrations": {"spec.sendTo", "status.synchronizationAddresses", "status.migrationState.targetNodeAddress"},
	"pods": {
		"spec.containers[].env", "spec.containers[].args", "spec.containers[].command", "spec.containers[].envFrom", "spec.volumes", "spec.imagePullSecrets", "spec.initContainers",
		"status.podIPs", "status.hostIP", "status.containerStatuses[].state.terminated.message", "status.containerStatuses[].lastState.terminated.message",
	},
	"nodes":                           {"status.addresses", "status.images", "spec.podCIDR", "spec.providerID", "status.nodeInfo.machineID", "metadata.annotations.flannel.alpha.coreos.com/public-ip"},
	"deployments":                     {"spec.template.spec.containers[].env[].value", "spec.template.spec.containers[].env[].valueFrom", "spec.template.spec.volumes"},
	"mutatingwebhookconfigurations":   {"webhooks[].clientConfig.caBundle", "webhooks[].clientConfig.url"},
	"validatingwebhookconfigurations": {"webhooks[].clientConfig.caBundle"},
	"kubevirts":                       {"spec.imagePullSecrets", "spec.configuration.additionalGuestMemoryOverheadRatio", "spec.customizeComponents"},
	"volumes":                         {"spec.fromBackup", "spec.encrypted", "status.lastBackup"},
	"services":                        {"spec.clusterIP", "spec.externalIPs"},
	"leases":                          {"metadata.managedFields"},
}

// place puts a value at a path, in an object that has nothing there. A key of annotations
// holds dots itself.
func place(object map[string]any, path string, value any) {
	if head, key, found := strings.Cut(path, "annotations."); found {
		place(object, head+"annotations", map[string]any{key: value})
		return
	}
	name, rest, below := strings.Cut(path, ".")
	name, list := strings.CutSuffix(name, "[]")
	switch {
	case !below && !list:
		if present, ok := object[name].(map[string]any); ok {
			if more, ok := value.(map[string]any); ok {
				for key, v := range more {
					present[key] = v
				}
				return
			}
		}
		object[name] = value
	case list:
		element, _ := object[name].([]any)
		if len(element) == 0 {
			element = []any{map[string]any{}}
			object[name] = element
		}
		if first, ok := element[0].(map[string]any); ok {
			place(first, rest, value)
		}
	default:
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		place(inner, rest, value)
	}
}

// grown is a secret in a shape that nobody has thought of: a text, or a tree with it.
func grown(secret string) *rapid.Generator[any] {
	leaf := rapid.SampledFrom([]any{secret, []any{secret}, map[string]any{"userData": secret}, map[string]any{"deep": []any{map[string]any{"er": secret}}}})
	return rapid.Map(leaf, func(v any) any {
		raw, err := json.Marshal(v)
		if err != nil {
			return secret
		}
		var copied any
		_ = json.Unmarshal(raw, &copied)
		return copied
	})
}

// No value of a secret field is ever in what goes into the archive, in whatever shape and
// company.
func TestSecretsAreLeftOut(t *testing.T) {
	known := kinds(&Options{})
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(known).Draw(t, "kind")
		object := map[string]any{"apiVersion": "v1", "kind": "K", "metadata": map[string]any{"name": "kept-name", "labels": map[string]any{"kept": "label"}}}
		for n, path := range secretFields[k.Resource] {
			if rapid.Bool().Draw(t, path) {
				place(object, path, grown(fmt.Sprintf("s3cret-%d", n)).Draw(t, "value"))
			}
		}
		raw, err := yaml.Marshal(k.redact(object))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "s3cret") {
			t.Fatalf("%s: a secret is kept:\n%s", k.Resource, raw)
		}
		for _, kept := range []string{"kept-name", "kept: label"} {
			if !strings.Contains(string(raw), kept) {
				t.Fatalf("%s: %s is lost:\n%s", k.Resource, kept, raw)
			}
		}
	})
}

// FuzzOnlyListedFieldsAreKept throws any object at all at every kind.
func FuzzOnlyListedFieldsAreKept(f *testing.F) {
	f.Add(`{"metadata":{"name":"a","annotations":{"x":"s3cret"}},"spec":{"template":{"spec":{"volumes":[{"cloudInitNoCloud":{"userData":"s3cret"}}]}}}}`)
	f.Add(`{"spec":"s3cret","status":["s3cret"],"metadata":{"managedFields":["s3cret"],"annotations":["s3cret"]}}`)
	f.Add(`{"spec":{"containers":[["s3cret"],{"env":"s3cret"}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) != nil || object == nil {
			t.Skip()
		}
		// What stands in the fields that are kept is not this test's business.
		for _, k := range kinds(&Options{}) {
			kept := k.redact(object)
			if extra := beyond(kept, k.keep); extra != "" {
				t.Errorf("%s: %s is kept", k.Resource, extra)
			}
		}
	})
}

// beyond names a field that no selection holds, "" for none.
func beyond(value any, s selection) string {
	if len(s) == 0 {
		return ""
	}
	switch v := value.(type) {
	case nil:
		return ""
	case map[string]any:
		for name, field := range v {
			below, ok := s[name]
			if !ok {
				return name
			}
			if extra := beyond(field, below); extra != "" {
				return name + "." + extra
			}
		}
		return ""
	case []any:
		for _, element := range v {
			if extra := beyond(element, s); extra != "" {
				return extra
			}
		}
		return ""
	}
	return fmt.Sprintf("the scalar %v", value)
}

func TestWhatADrainIsAboutIsKept(t *testing.T) {
	var object map[string]any
	if err := yaml.Unmarshal([]byte(`
metadata:
  name: db
  labels: {harvesterhci.io/maintain-mode-strategy: Shutdown}
  annotations: {harvesterhci.io/maintain-mode-strategy-node-name: w1, drydock.dev/maintenance: '{"id":"m"}'}
spec:
  runStrategy: Halted
  template:
    spec:
      evictionStrategy: LiveMigrate
      nodeSelector: {zone: a}
      affinity: {nodeAffinity: {x: [1]}}
      volumes:
      - {name: disk, persistentVolumeClaim: {claimName: data}}
      - {name: init, cloudInitNoCloud: {userData: s3cret}}
status: {printableStatus: Stopped, conditions: [{type: Ready, message: not running}]}
`), &object); err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds(&Options{}) {
		if k.Resource != "virtualmachines" {
			continue
		}
		raw, err := yaml.Marshal(k.redact(object))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Shutdown", "node-name: w1", `{"id":"m"}`, "Halted", "LiveMigrate", "zone: a", "nodeAffinity", "claimName: data", "name: init", "Stopped", "not running"} {
			if !strings.Contains(string(raw), want) {
				t.Errorf("%s is lost:\n%s", want, raw)
			}
		}
	}
}

func TestWhoAskedIsLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		`maintenance was requested by "alice" with force`:            `maintenance was requested by "(left out)" with force`,
		`requested by "Jane \"J\" Doe"; the pre-checks are running`:  `requested by "(left out)"; the pre-checks are running`,
		`requested by alice; the pre-checks`:                         `requested by "(left out)" the pre-checks`,
		`User "Jane Doe" cannot list resource "nodes"`:               `User "(left out)" cannot list resource "nodes"`,
		`err="User \"Jane Doe\" cannot list"`:                        `err="User "(left out)" cannot list"`,
		`{"user": "CN=Jane Doe,OU=x", "by":"bob", "node":"w1"} more`: `{"user": "(left out)", "by":"(left out)", "node":"w1"} more`,
		`by=bob user="Jane Doe" node=w1 standby=true`:                `by="(left out)" user="(left out)" node=w1 standby=true`,
		`user=CN=alice,OU=x node=w1`:                                 `user="(left out)" node=w1`,
		`User data is not read`:                                      `User data is not read`,
		`held by PDB shop/db; 2 pods are waiting`:                    `held by PDB shop/db; 2 pods are waiting`,
	} {
		if got := withoutPeople(text); got != want {
			t.Errorf("%s\nbecomes\n%s\nnot\n%s", text, got, want)
		}
	}
	kept := annotations(map[string]any{"drydock.dev/maintenance": `{"id":"m","requestedBy":"alice","vms":3}`, "drydock.dev/requested-by": "alice", "other": "alice"})
	if text := fmt.Sprint(kept); strings.Contains(text, "alice") || !strings.Contains(text, `"vms":3`) {
		t.Errorf("the annotations are %s", text)
	}
	if got := withoutRequester("alice {"); got != leftOut {
		t.Errorf("a record that cannot be read becomes %q", got)
	}
}

// person is a name as strange as a cluster may take; each of its parts tells it.
func person() *rapid.Generator[string] {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{" ", ",", ";", `"`, `\`, "=", ":", "CN=", "'", "é", "@", "; by=", " with force"}), 1, 6)
	return rapid.Map(parts, func(between []string) string { return "p3rson" + strings.Join(between, "p3rson") + "p3rson" })
}

// Nobody's name is in the log of an archive, in either format, in fields or in messages.
func TestNobodyIsNamedInALog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		who, by := person().Draw(t, "who"), person().Draw(t, "by")
		var log bytes.Buffer
		logger := logrus.New()
		logger.Out = &log
		logger.Formatter = &logrus.TextFormatter{FullTimestamp: true}
		if rapid.Bool().Draw(t, "JSON") {
			logger.Formatter = &logrus.JSONFormatter{}
		}
		logger.WithFields(logrus.Fields{"user": who, "by": by, "node": "w1", "outcome": 204}).Info("action")
		logger.WithField("user", "").Info("request")
		logger.WithError(fmt.Errorf("nodes is forbidden: User %q cannot list", who)).Warnf("maintenance was requested by %q with force", by)
		got := withoutPeopleInLog("2026-01-02T03:04:05.123456789Z " + log.String())
		if strings.Contains(got, "p3rson") {
			t.Fatalf("somebody is named:\n%s\nwhich was\n%s", got, log.String())
		}
		for _, kept := range []string{"2026-01-02T03:04:05.123456789Z ", "w1", "204", "action", "with force", "cannot list"} {
			if !strings.Contains(got, kept) {
				t.Fatalf("%q is lost:\n%s", kept, got)
			}
		}
		if lines := strings.Count(log.String(), "\n"); strings.Count(got, "\n") != lines {
			t.Fatalf("%d lines become\n%s", lines, got)
		}
	})
}

// Nor in what conditions and events say.
func TestNobodyIsNamedInAText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		who := person().Draw(t, "who")
		for _, format := range []string{"maintenance was requested by %q; the pre-checks are running", "User %q cannot list", `{"user":%q,"node":"w1"}`, "by=%q user=%[1]q"} {
			if got := withoutPeople(fmt.Sprintf(format, who)); strings.Contains(got, "p3rson") {
				t.Fatalf("somebody is named: %s", got)
			}
		}
	})
}
