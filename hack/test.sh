#!/bin/sh
# Runs all tests, for `make test`, which builds the programs that they use. The arguments
# are the modules beside the main one.
#
# Tests keep two cores busy, most of all with the control plane's work, so nothing is done
# twice. Packages take three dev clusters in turns (DRYDOCK_DEVCLUSTERS, see
# tests/cluster), of which each costs a quarter of a minute of a core to boot. Packages
# that need none come from the go command's cache; the others never do, since they run
# programs that it does not see. A test against a cluster waits for most of its time, so
# more packages than there are cores run at once, and the small modules beside the large
# one; what those say is told at the end.
set -u
cd "$(dirname "$0")/.."

failed=0
clusters=$(mktemp -d)
mkdir "$clusters/1" "$clusters/2" "$clusters/3"
export DRYDOCK_DEVCLUSTERS="$clusters/1:$clusters/2:$clusters/3"
finish() {
	for state in "$clusters"/*/state; do
		[ ! -d "$state" ] || bin/devcluster down --state-dir "$state"
	done
	if [ $failed = 0 ]; then rm -rf "$clusters"; else echo "the dev clusters' logs are kept in $clusters"; fi
}
trap finish EXIT
trap 'failed=1; exit 130' INT TERM

for module; do
	said=bin/test-$(basename "$module")
	{ go -C "$module" test -count=1 -timeout 25m ./... >"$said.log" 2>&1; echo $? >"$said.status"; } &
done
echo "go test ./cmd/... ./hack/... ./pkg/..."
go test ./cmd/... ./hack/... ./pkg/... || failed=1
echo "go test ./tests/..."
# The longest first, so that none of them is what all wait for in the end.
go test -p 3 -count=1 -timeout 25m ./tests/e2e ./tests/faults ./tests/limits ./tests/... || failed=1
wait
for module; do
	said=bin/test-$(basename "$module")
	echo "go -C $module test ./..."
	cat "$said.log"
	[ "$(cat "$said.status")" = 0 ] || failed=1
done
exit $failed
