package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// known are CRDs that a test installs and removes.
type known struct {
	t *testing.T
	*crds
}

func newKnown(t *testing.T) known {
	t.Helper()
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &apiextensionsv1.CustomResourceDefinition{}, 0, cache.Indexers{})
	return known{t, &crds{informer: informer, changed: make(chan struct{})}}
}

func (k known) install(name string) {
	k.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	if err := k.informer.GetStore().Add(crd); err != nil {
		k.t.Fatal(err)
	}
	k.signal()
}

func (k known) remove(name string) {
	k.t.Helper()
	if err := k.informer.GetStore().Delete(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		k.t.Fatal(err)
	}
	k.signal()
}

// What could not be started is tried again, with pauses that grow, and not after what it
// rests on is gone, be it in the midst of a start.
func TestWhatCannotBeStartedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKnown(t)
		ctx, cancel := context.WithCancel(t.Context())
		attempts, running, failing := 0, 0, 3
		hanging := false
		go k.follow(ctx, "things", func(ctx context.Context) error {
			attempts++
			if hanging {
				<-ctx.Done()
				return ctx.Err()
			}
			if attempts <= failing {
				return errors.New("not yet")
			}
			running++
			context.AfterFunc(ctx, func() { running-- })
			return nil
		}, "a", "b")
		expect := func(when string, tries, runs int) {
			t.Helper()
			synctest.Wait()
			if attempts != tries || running != runs {
				t.Errorf("%s: %d attempts, %d running; want %d and %d", when, attempts, running, tries, runs)
			}
		}
		k.install("a")
		expect("half of it is installed", 0, 0)
		k.install("b")
		expect("it fails", 1, 0)
		time.Sleep(time.Hour)
		expect("it does not fail any more", 4, 1)
		k.remove("a")
		expect("half of it is gone", 4, 0)
		failing = 1000
		k.install("a")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if more := attempts - 4; more < 10 || more > 20 {
			t.Errorf("%d attempts in ten minutes", more)
		}
		k.remove("a")
		before := attempts
		time.Sleep(time.Hour)
		expect("it is gone", before, 0)
		hanging = true
		k.install("a")
		expect("its start hangs", before+1, 0)
		k.remove("a")
		expect("what hung is given up", before+1, 0)
		hanging, failing = false, 0
		k.install("a")
		expect("it is installed anew", before+2, 1)
		cancel()
		expect("the end", before+2, 0)
	})
}

// Each change is looked at, and the state before the first one.
func TestChangesOfWhatIsInstalledAreLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, looks := newKnown(t), 0
		ctx, cancel := context.WithCancel(t.Context())
		go k.each(ctx, func() { looks++ })
		synctest.Wait()
		k.install("a")
		synctest.Wait()
		k.remove("a")
		synctest.Wait()
		if looks != 3 {
			t.Errorf("looked %d times", looks)
		}
		cancel()
		synctest.Wait()
	})
}
