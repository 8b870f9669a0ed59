package nodedrain

import (
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// patience is long enough for the slowest machine.
const patience = time.Minute

// watching is a Watch whose notifications arrive in told.
func watching(t *testing.T, pods ...*corev1.Pod) (*Watch, *fake.Clientset, chan string) {
	t.Helper()
	client, told := fake.NewClientset(), make(chan string, 100)
	for _, p := range pods {
		if err := client.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	return NewWatch(t.Context(), client, owners{}, func(node string) { told <- node }, logrus.New()), client, told
}

// await asks again at each notification until so many pods are known.
func await(t *testing.T, w *Watch, told chan string, node string, want int) {
	t.Helper()
	limit := time.After(patience)
	for {
		pods, known, err := w.Pods(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		if known && len(pods) == want {
			return
		}
		select {
		case got := <-told:
			if got != node {
				t.Errorf("told of %s, want %s", got, node)
			}
		case <-limit:
			t.Fatalf("known: %t, %d pods; want %d", known, len(pods), want)
		}
	}
}

func TestThePodsOfANodeAreKnownOnceTheyWereListed(t *testing.T) {
	w, client, told := watching(t, pod("web"))
	if pods, known, err := w.Pods(t.Context(), "w1"); err != nil || len(pods) > 0 && !known {
		t.Errorf("pods that are not known: %v, %v", pods, err)
	}
	await(t, w, told, "w1", 1)
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), pod("another"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, w, told, "w1", 2)
	if err := client.CoreV1().Pods("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, w, told, "w1", 1)
}

// Nothing happens on an empty node that could bring a pass to it.
func TestThatANodeIsEmptyIsTold(t *testing.T) {
	w, _, told := watching(t)
	await(t, w, told, "w1", 0)
}

func TestEachNodeHasOneWatchOfItsOwnPods(t *testing.T) {
	w, client, told := watching(t)
	for range 3 {
		await(t, w, told, "w1", 0)
	}
	if got := lists(client); len(got) != 1 || got[0] != "spec.nodeName=w1" {
		t.Errorf("pods were listed with the selectors %q, want once those of w1", got)
	}
	w.Forget("w1")
	w.Forget("w1")
	await(t, w, told, "w1", 0)
	if got := lists(client); len(got) != 2 {
		t.Errorf("after it was forgotten the node's pods were listed %d times, want twice", len(got))
	}
}

func lists(client *fake.Clientset) []string {
	var selectors []string
	for _, action := range client.Actions() {
		if list, ok := action.(clienttesting.ListAction); ok {
			selectors = append(selectors, list.GetListRestrictions().Fields.String())
		}
	}
	return selectors
}
