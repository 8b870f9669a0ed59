// Package kubevirt installs KubeVirt the way its operator would, without running
// the operator, and runs virt-api and virt-controller as local processes.
//
// The order is the operator's: CRDs, the KubeVirt object with its status, RBAC,
// certificates and Services; then the two processes; and only when virt-api
// listens, its webhooks and APIServices, since every eviction of a pod and every
// write of a VM fails while a webhook of failure policy Fail leads nowhere.
package kubevirt
