package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/drydock-dev/drydock/hack/devcluster/process"
	"github.com/drydock-dev/drydock/hack/devcluster/state"
)

// Component names, as `status`, logs and errors show them.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

// stopGrace is how long a component gets after SIGTERM. Nothing is lost with it:
// a cluster's data do not survive the cluster.
const stopGrace = 3 * time.Second

// Environment is the environment of every component: its temporary files and
// what it would write to its home stay inside the state directory. Of this program's own
// environment it has GOGC alone: whoever has the memory can spare all components a
// quarter of their work with it.
func Environment(dir state.Dir) []string {
	environment := []string{"HOME=" + dir.Home(), "TMPDIR=" + dir.Temp(), "PATH=/usr/local/bin:/usr/bin:/bin"}
	if value, set := os.LookupEnv("GOGC"); set {
		environment = append(environment, "GOGC="+value)
	}
	return environment
}

// Config is what the components are configured from.
type Config struct {
	Dir      state.Dir
	Identity *Identity
	// Verbosity is the klog level of the Kubernetes components.
	Verbosity int

	EtcdPort, EtcdPeerPort, APIServerPort, ControllerManagerPort, SchedulerPort int
}

// Server is the apiserver's URL.
func (c Config) Server() string { return loopback("https", c.APIServerPort) }

func loopback(scheme string, port int) string {
	return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port)
}

func (c Config) spec(name, program string, args ...string) process.Spec {
	return process.Spec{
		Name: name, Path: program, Args: args,
		Env: Environment(c.Dir), Dir: c.Dir.Run(), Log: c.Dir.Log(name), Grace: stopGrace,
	}
}

// Etcd runs without TLS (it listens on loopback only) and without fsync: its data
// are not meant to survive a crash, and syncing is most of what a boot would wait for.
func (c Config) Etcd(program string) process.Spec {
	client, peer := loopback("http", c.EtcdPort), loopback("http", c.EtcdPeerPort)
	return c.spec(Etcd, program,
		"--name=devcluster",
		"--data-dir="+c.Dir.Etcd(),
		"--unsafe-no-fsync",
		"--listen-client-urls="+client,
		"--advertise-client-urls="+client,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster=devcluster="+peer,
		"--log-level=warn",
	)
}

// APIServer is the apiserver. Its endpoint reconciler is off because endpoints may
// not be loopback addresses; aggregator routing stays off, so that a Service of
// type ExternalName leads webhooks and APIServices to a local process.
func (c Config) APIServer(program string) process.Spec {
	id := c.Identity
	return c.spec(APIServer, program,
		"--etcd-servers="+loopback("http", c.EtcdPort),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(c.APIServerPort),
		"--endpoint-reconciler-type=none",
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		"--service-cluster-ip-range="+serviceRange,
		"--client-ca-file="+id.CA.CertFile,
		"--tls-cert-file="+id.server.Cert,
		"--tls-private-key-file="+id.server.Key,
		"--cert-dir="+c.Dir.Run(),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+id.signingKey,
		"--service-account-signing-key-file="+id.signingKey,
		"--requestheader-client-ca-file="+id.frontProxy.CertFile,
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file="+id.aggregator.Cert,
		"--proxy-client-key-file="+id.aggregator.Key,
		"--audit-policy-file="+c.Dir.AuditPolicy(),
		"--audit-log-path="+c.Dir.Audit(),
		// Blocking: a request's line is in the file when its answer arrives, so a
		// test that counts requests needs no patience.
		"--audit-log-mode=blocking",
		"--profiling=false",
		"--v="+strconv.Itoa(c.Verbosity),
	)
}

// NodeMonitorGrace is how long a host may be silent before it is NotReady.
// Kubernetes' default of 50 s would make every test of a power cut that long; with 8 s
// hosts were taken for dead whenever two suites of tests kept a small machine busy.
const NodeMonitorGrace = 20 * time.Second

// ControllerManager is the controller manager. Its client limits are raised since
// with the defaults a new namespace's service account takes five seconds, and
// the flex volume folder is moved from /usr/libexec, where it would be created.
func (c Config) ControllerManager(program string) (process.Spec, error) {
	kubeconfig, err := c.Identity.componentKubeconfig(c.Server(), c.Dir.Run(), ControllerManager)
	if err != nil {
		return process.Spec{}, err
	}
	return c.spec(ControllerManager, program,
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(c.ControllerManagerPort),
		"--cert-dir="+filepath.Join(c.Dir.Run(), ControllerManager),
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--service-account-private-key-file="+c.Identity.signingKey,
		"--root-ca-file="+c.Identity.CA.CertFile,
		"--cluster-signing-cert-file="+c.Identity.CA.CertFile,
		"--cluster-signing-key-file="+c.Identity.CA.KeyFile,
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--node-monitor-period=1s",
		"--node-monitor-grace-period="+NodeMonitorGrace.String(),
		"--flex-volume-plugin-dir="+filepath.Join(c.Dir.Run(), "flex-volumes"),
		"--profiling=false",
		"--v="+strconv.Itoa(c.Verbosity),
	), nil
}

// Scheduler is the scheduler.
func (c Config) Scheduler(program string) (process.Spec, error) {
	kubeconfig, err := c.Identity.componentKubeconfig(c.Server(), c.Dir.Run(), Scheduler)
	if err != nil {
		return process.Spec{}, err
	}
	return c.spec(Scheduler, program,
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(c.SchedulerPort),
		"--cert-dir="+filepath.Join(c.Dir.Run(), Scheduler),
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--profiling=false",
		"--v="+strconv.Itoa(c.Verbosity),
	), nil
}
