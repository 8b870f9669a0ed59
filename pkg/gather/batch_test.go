package gather

import (
	"context"
	"errors"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slowNodes answers when it is told to, each time with a new list.
type slowNodes struct {
	begun, answer chan struct{}
	fail          error
}

func (s *slowNodes) List(context.Context, metav1.ListOptions) (*corev1.NodeList, error) {
	s.begun <- struct{}{}
	<-s.answer
	return &corev1.NodeList{}, s.fail
}

// Whoever asks while a list is being read gets the next one, which all of them share: what
// is being read may be older than the question.
func TestAQuestionIsNeverAnsweredFromBeforeIt(t *testing.T) {
	t.Parallel()
	source := &slowNodes{begun: make(chan struct{}), answer: make(chan struct{})}
	batch := NewBatch(source)
	var wg sync.WaitGroup
	ask := func(into **corev1.NodeList) {
		wg.Go(func() {
			list, err := batch.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Error(err)
			}
			*into = list
		})
	}
	var first *corev1.NodeList
	ask(&first)
	<-source.begun
	late := make([]*corev1.NodeList, 5)
	for i := range late {
		ask(&late[i])
	}
	// All of them wait before the first list is there.
	for {
		batch.mu.Lock()
		waiting := batch.next != nil
		batch.mu.Unlock()
		if waiting {
			break
		}
	}
	source.answer <- struct{}{}
	<-source.begun
	source.answer <- struct{}{}
	// One who asked only after the second began makes a third.
	go func() {
		for {
			select {
			case <-source.begun:
				source.answer <- struct{}{}
			case <-t.Context().Done():
				return
			}
		}
	}()
	wg.Wait()
	for i, list := range late {
		if list == nil || list == first {
			t.Errorf("question %d is answered with what was being read when it was asked", i)
		}
	}
}

func TestAnErrorIsForThoseWhoWaitedForIt(t *testing.T) {
	t.Parallel()
	source := &slowNodes{begun: make(chan struct{}, 9), answer: make(chan struct{}, 9), fail: errors.New("no apiserver")}
	batch := NewBatch(source)
	source.answer <- struct{}{}
	if _, err := batch.List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("an error is lost")
	}
	source.fail = nil
	source.answer <- struct{}{}
	if _, err := batch.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("an error is repeated: %v", err)
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := batch.List(impatient, metav1.ListOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("who gives up waits: %v", err)
	}
	source.answer <- struct{}{}
}
