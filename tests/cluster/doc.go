// Package cluster gives tests a dev cluster (hack/devcluster): a real control
// plane with simulated hosts.
//
// A package of tests has one cluster, started when the first test asks for it:
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		c := cluster.For(t)
//		ns, pool := c.Namespace(t), c.Pool(t, 3)
//		c.VM(ns, "a").PinnedTo(pool).On(pool.Host(0)).EvictionStrategy("LiveMigrate").Create(t)
//		…
//	}
//
// Tests share the cluster and run in parallel without meeting one another: each
// has namespaces of its own, and a pool of hosts that no other test's VMs are
// scheduled to. What a test made is removed when it ends.
//
// With DRYDOCK_DEVCLUSTER set to the state directory of a running cluster, tests
// use that one, which saves the boot; with DRYDOCK_DEVCLUSTERS, packages take clusters
// in turns (EnvShared). With -short, tests that ask for a cluster
// are skipped.
package cluster
