package access

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	unionauth "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

var (
	// ErrNobody is returned for a request that proves no identity.
	ErrNobody = errors.New("a bearer token or a client certificate that the cluster accepts is needed")
	// ErrUnavailable is wrapped by errors that say nothing about the caller: the cluster
	// could not be asked.
	ErrUnavailable = errors.New("the cluster cannot be asked who is calling")
)

// tokenMemory is how long the cluster's word on a token counts, so that a client which
// lists and acts in one go costs one review. A token that is revoked works that long.
const tokenMemory = 10 * time.Second

// Where every cluster publishes the certificate authorities of its clients and of its
// front proxies.
const (
	authenticationNamespace = metav1.NamespaceSystem
	authenticationConfigMap = "extension-apiserver-authentication"
)

// Authenticator tells who sent a request.
type Authenticator struct {
	request          authenticator.Request
	clients, proxies *dynamiccertificates.ConfigMapCAController
}

// NewAuthenticator follows the cluster's certificate authorities until the context ends.
// A cluster that publishes none has callers with tokens only.
func NewAuthenticator(ctx context.Context, client kubernetes.Interface) (*Authenticator, error) {
	clients, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", authenticationNamespace, authenticationConfigMap, "client-ca-file", client)
	if err != nil {
		return nil, fmt.Errorf("certificate authority of clients: %w", err)
	}
	proxies, err := dynamiccertificates.NewDynamicCAFromConfigMapController("front-proxy", authenticationNamespace, authenticationConfigMap, "requestheader-client-ca-file", client)
	if err != nil {
		return nil, fmt.Errorf("certificate authority of front proxies: %w", err)
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(authenticationConfigMap, authenticationNamespace, client,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")
	for _, c := range []interface {
		RunOnce(ctx context.Context) error
		Run(ctx context.Context, workers int)
	}{clients, proxies, headers} {
		// What is missing now may come: the first look only spares callers a refusal.
		_ = c.RunOnce(ctx)
		go c.Run(ctx, 1)
	}
	tokens := newTokens(client.AuthenticationV1())
	return &Authenticator{
		clients: clients, proxies: proxies,
		request: group.NewAuthenticatedGroupAdder(unionauth.New(
			headerrequest.NewDynamicVerifyOptionsSecure(proxies.VerifyOptions,
				headerrequest.StringSliceProviderFunc(headers.AllowedClientNames), headerrequest.StringSliceProviderFunc(headers.UsernameHeaders),
				headerrequest.StringSliceProviderFunc(headers.UIDHeaders), headerrequest.StringSliceProviderFunc(headers.GroupHeaders),
				headerrequest.StringSliceProviderFunc(headers.ExtraHeaderPrefixes)),
			requestx509.NewDynamic(clients.VerifyOptions, requestx509.CommonNameUserConversion),
			bearertoken.New(tokens),
			websocket.NewProtocolAuthenticator(tokens),
		)),
	}, nil
}

// Authenticate returns who sent the request, without impersonation. The request keeps its
// credentials, of which the library takes away what it has used: a websocket is asked
// again who it is.
func (a *Authenticator) Authenticate(r *http.Request) (user.Info, error) {
	answer, ok, err := a.request.AuthenticateRequest(r.Clone(r.Context()))
	switch {
	case ok:
		return answer.User, nil
	case errors.Is(err, ErrUnavailable):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNobody, err)
	}
	return nil, ErrNobody
}

// ClientCAs are the authorities whose certificates callers are asked for, those of front
// proxies among them: a caller that has no such certificate sends none. It is nil while
// there are none, and anybody is then asked for any.
func (a *Authenticator) ClientCAs() *x509.CertPool {
	var pool *x509.CertPool
	for _, source := range []*dynamiccertificates.ConfigMapCAController{a.clients, a.proxies} {
		bundle := source.CurrentCABundleContent()
		if len(bundle) == 0 {
			continue
		}
		if pool == nil {
			pool = x509.NewCertPool()
		}
		pool.AppendCertsFromPEM(bundle)
	}
	return pool
}

// tokens asks the cluster whose token it is.
type tokens struct {
	reviews authenticationclient.TokenReviewsGetter
	known   *memo[*authenticationv1.TokenReviewStatus]
}

func newTokens(reviews authenticationclient.TokenReviewsGetter) *tokens {
	return &tokens{reviews: reviews, known: newMemo[*authenticationv1.TokenReviewStatus]()}
}

// AuthenticateToken implements authenticator.Token. Tokens are remembered by their hash.
func (t *tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	hash := sha256.Sum256([]byte(token))
	status, err := t.known.get(ctx, string(hash[:]),
		func(*authenticationv1.TokenReviewStatus) time.Duration { return tokenMemory },
		func(ctx context.Context) (*authenticationv1.TokenReviewStatus, error) {
			review, err := t.reviews.TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			return &review.Status, nil
		})
	if err != nil || !status.Authenticated {
		return nil, false, err
	}
	info := &user.DefaultInfo{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups, Extra: map[string][]string{}}
	for key, values := range status.User.Extra {
		info.Extra[key] = values
	}
	return &authenticator.Response{User: info}, true, nil
}
