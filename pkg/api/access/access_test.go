package access

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// judge answers reviews. What a real cluster answers is tested in tests/api.
type judge struct {
	authorizationclient.SubjectAccessReviewInterface
	authenticationclient.TokenReviewInterface

	allow func(*authorizationv1.SubjectAccessReviewSpec) bool
	fail  error

	mu    sync.Mutex
	asked []string
}

type rightsJudge struct{ *judge }

func (j *judge) SubjectAccessReviews() authorizationclient.SubjectAccessReviewInterface {
	return rightsJudge{j}
}

func (j rightsJudge) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	a := review.Spec.ResourceAttributes
	j.asked = append(j.asked, strings.Join([]string{review.Spec.User, a.Verb, a.Group, a.Resource, a.Subresource, a.Namespace, a.Name}, " "))
	if j.fail != nil {
		return nil, j.fail
	}
	answer := review.DeepCopy()
	answer.Status.Allowed = j.allow(&review.Spec)
	return answer, nil
}

type tokenJudge struct{ *judge }

func (j *judge) TokenReviews() authenticationclient.TokenReviewInterface { return tokenJudge{j} }

func (j tokenJudge) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, review.Spec.Token)
	if j.fail != nil {
		return nil, j.fail
	}
	answer := review.DeepCopy()
	answer.Status.Authenticated = review.Spec.Token == "good"
	answer.Status.User = authenticationv1.UserInfo{Username: "u", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
	return answer, nil
}

func TestEachPartOfAnImpersonationIsARight(t *testing.T) {
	t.Parallel()
	sender := &user.DefaultInfo{Name: "proxy"}
	for name, c := range map[string]struct {
		header http.Header
		deny   string
		asks   []string
		want   string
		groups []string
		fails  error
	}{
		"nobody is impersonated": {header: http.Header{}, want: "proxy"},
		"a user":                 {header: http.Header{"Impersonate-User": {"u"}}, asks: []string{"proxy impersonate  users   u"}, want: "u", groups: []string{"system:authenticated"}},
		"a user with groups": {
			header: http.Header{"Impersonate-User": {"u"}, "Impersonate-Group": {"a", "system:masters"}},
			asks:   []string{"proxy impersonate  groups   a", "proxy impersonate  groups   system:masters", "proxy impersonate  users   u"},
			want:   "u", groups: []string{"a", "system:masters", "system:authenticated"},
		},
		"a service account": {
			header: http.Header{"Impersonate-User": {"system:serviceaccount:n:s"}}, asks: []string{"proxy impersonate  serviceaccounts  n s"}, want: "system:serviceaccount:n:s",
			groups: []string{"system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"},
		},
		"uid and extra": {
			header: http.Header{"Impersonate-User": {"u"}, "Impersonate-Uid": {"1"}, "Impersonate-Extra-Example.org%2fteam": {"x"}},
			asks:   []string{"proxy impersonate  users   u", "proxy impersonate authentication.k8s.io uids   1", "proxy impersonate authentication.k8s.io userextras example.org/team  x"},
			want:   "u", groups: []string{"system:authenticated"},
		},
		"a user who is called almost like an account": {
			header: http.Header{"Impersonate-User": {"system:serviceaccount:n:s:t"}}, asks: []string{"proxy impersonate  users   system:serviceaccount:n:s:t"}, want: "system:serviceaccount:n:s:t",
			groups: []string{"system:authenticated"},
		},
		"anonymous":                {header: http.Header{"Impersonate-User": {"system:anonymous"}}, asks: []string{"proxy impersonate  users   system:anonymous"}, want: "system:anonymous", groups: []string{"system:unauthenticated"}},
		"a group that is too much": {header: http.Header{"Impersonate-User": {"u"}, "Impersonate-Group": {"a", "system:masters"}}, deny: "system:masters", fails: ErrNotAllowed},
		"a user that is too much":  {header: http.Header{"Impersonate-User": {"u"}}, deny: "u", fails: ErrNotAllowed},
		"groups without a user":    {header: http.Header{"Impersonate-Group": {"system:masters"}}, fails: ErrNotAllowed},
		"extra without a user":     {header: http.Header{"Impersonate-Extra-K": {"v"}}, fails: ErrNotAllowed},
	} {
		j := &judge{allow: func(spec *authorizationv1.SubjectAccessReviewSpec) bool {
			return spec.User == "proxy" && spec.ResourceAttributes.Name != c.deny
		}}
		caller, err := NewAuthorizer(j).Impersonate(t.Context(), sender, c.header)
		if c.fails != nil {
			if !errors.Is(err, c.fails) {
				t.Errorf("%s: %v, %v", name, caller, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		slices.Sort(j.asked)
		if caller.GetName() != c.want || !slices.Equal(j.asked, c.asks) || !slices.Equal(caller.GetGroups(), c.groups) || (caller.By != nil) != (c.want != "proxy") {
			t.Errorf("%s: is %s of %v, by %v, after asking %q", name, caller.GetName(), caller.GetGroups(), caller.By, j.asked)
		}
	}
}

func TestAnswersAreRememberedAndErrorsAreNot(t *testing.T) {
	t.Parallel()
	j := &judge{allow: func(spec *authorizationv1.SubjectAccessReviewSpec) bool { return spec.User == "a" }}
	authorizer := NewAuthorizer(j)
	right := Right{Verb: "get", Resource: "nodes"}
	may := func(name string, right Right) bool {
		t.Helper()
		allowed, err := authorizer.May(t.Context(), &user.DefaultInfo{Name: name}, right)
		if err != nil {
			t.Fatal(err)
		}
		return allowed
	}
	for range 3 {
		if !may("a", right) || may("b", right) || !may("a", Right{Verb: "update", Resource: "nodes"}) {
			t.Error("an answer is somebody else's")
		}
	}
	if len(j.asked) != 3 {
		t.Errorf("asked %q", j.asked)
	}
	j.fail = errors.New("no apiserver")
	for range 2 {
		if _, err := authorizer.May(t.Context(), &user.DefaultInfo{Name: "c"}, right); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without an answer: %v", err)
		}
	}
	if len(j.asked) != 5 {
		t.Errorf("asked %q", j.asked)
	}
}

func TestTokensAreReviewed(t *testing.T) {
	t.Parallel()
	j := &judge{}
	tokens := newTokens(j)
	for range 2 {
		answer, ok, err := tokens.AuthenticateToken(t.Context(), "good")
		if err != nil || !ok || answer.User.GetName() != "u" || answer.User.GetExtra()["k"][0] != "v" {
			t.Errorf("a good token is %v, %t, %v", answer, ok, err)
		}
		if _, ok, err := tokens.AuthenticateToken(t.Context(), "bad"); ok || err != nil {
			t.Errorf("a bad token is %t, %v", ok, err)
		}
	}
	if len(j.asked) != 2 {
		t.Errorf("asked %q", j.asked)
	}
	j.fail = errors.New("no apiserver")
	if _, ok, err := tokens.AuthenticateToken(t.Context(), "other"); ok || !errors.Is(err, ErrUnavailable) {
		t.Errorf("without an answer: %t, %v", ok, err)
	}
}

// Many who ask the same at once share a question, and one who gives up costs the others
// nothing.
func TestAQuestionIsShared(t *testing.T) {
	t.Parallel()
	m := newMemo[int]()
	begun, release := make(chan struct{}), make(chan struct{})
	asked := 0
	ask := func(ctx context.Context) (int, error) {
		asked++
		close(begun)
		<-release
		return 7, ctx.Err()
	}
	keep := func(int) time.Duration { return time.Hour }
	impatient, giveUp := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := m.get(impatient, "k", keep, ask)
		gone <- err
	}()
	<-begun
	giveUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who gives up is told %v", err)
	}
	answers := make(chan int)
	for range 5 {
		go func() {
			got, err := m.get(t.Context(), "k", keep, ask)
			if err != nil {
				t.Error(err)
			}
			answers <- got
		}()
	}
	close(release)
	for range 5 {
		if got := <-answers; got != 7 {
			t.Errorf("answered %d", got)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
