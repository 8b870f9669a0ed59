// Command codegen writes the typed clients, caches and controllers of the kinds
// that Kubernetes itself does not own: KubeVirt's and Longhorn's. `make generate`
// runs it and `make verify` fails when its output differs from what is committed.
package main

import (
	"log"
	"os"

	longhornv1 "github.com/longhorn/longhorn-manager/k8s/pkg/apis/longhorn/v1beta2"
	controllergen "github.com/rancher/wrangler/v3/pkg/controller-gen"
	"github.com/rancher/wrangler/v3/pkg/controller-gen/args"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func main() {
	// controller-gen writes next to GOPATH instead of the module when it is set,
	// and reports nothing.
	if err := os.Unsetenv("GOPATH"); err != nil {
		log.Fatal(err)
	}
	controllergen.Run(args.Options{
		OutputPackage: "github.com/drydock-dev/drydock/pkg/generated",
		Boilerplate:   "hack/boilerplate.go.txt",
		Groups: map[string]args.Group{
			kubevirtv1.GroupVersion.Group: {
				PackageName: "kubevirt.io",
				Types: []any{
					kubevirtv1.KubeVirt{},
					kubevirtv1.VirtualMachine{},
					kubevirtv1.VirtualMachineInstance{},
					kubevirtv1.VirtualMachineInstanceMigration{},
				},
			},
			longhornv1.SchemeGroupVersion.Group: {
				PackageName: "longhorn.io",
				Types: []any{
					longhornv1.Engine{},
					longhornv1.Node{},
					longhornv1.Replica{},
					longhornv1.Setting{},
					longhornv1.Volume{},
					longhornv1.VolumeAttachment{},
				},
			},
		},
	})
}
