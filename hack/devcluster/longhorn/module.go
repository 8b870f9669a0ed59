package longhorn

// The import keeps the module, whose folder the CRDs are read from, in go.mod and
// its checksum in go.sum: the go command forgets what no package needs.
import _ "github.com/longhorn/longhorn-manager/k8s/pkg/apis/longhorn/v1beta2"
