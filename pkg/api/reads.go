package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/api/access"
	"github.com/drydock-dev/drydock/pkg/api/feed"
	"github.com/drydock-dev/drydock/pkg/api/view"
)

// listRight is what it takes to read the objects of a kind.
func listRight(kind *view.Kind) access.Right {
	return access.Right{Verb: "list", Group: kind.Group, Resource: kind.Resource}
}

// list serves GET on a kind.
func (s *server) list(kind *view.Kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		collection, err := s.collection(r, kind)
		if err != nil {
			fail(w, problemOf(err))
			return
		}
		writeJSON(w, r, collection)
	}
}

func (s *server) collection(r *http.Request, kind *view.Kind) (*view.Collection, error) {
	wanted, err := pageOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	o := s.proxies.originOf(r)
	c := view.NewCollection(kind, o.base()+view.Prefix+kind.Plural)
	if kind.Fixed {
		objects, err := s.fixed(r.Context(), requestOf(r).caller, kind, o.base())
		if err != nil {
			return nil, err
		}
		c.Data, err = encodeAll(objects)
		c.Count = len(c.Data)
		return c, err
	}
	if err := s.require(r.Context(), requestOf(r).caller, listRight(kind)); err != nil {
		return nil, err
	}
	source, err := s.Feeds.Feed(r.Context(), kind)
	if err != nil {
		return nil, err
	}
	look, err := s.lookOf(r.Context(), requestOf(r).caller, kind, o.base(), "")
	if err != nil {
		return nil, err
	}
	items, revision := source.List()
	c.Revision, c.Count = strconv.FormatUint(revision, 10), len(items)
	items, c.Continue, c.Pages = wanted.cut(items)
	excluded := excludes(r.URL.Query())
	for _, item := range items {
		raw, err := look.render(item)
		if err != nil {
			return nil, err
		}
		if raw, err = view.Exclude(raw, excluded); err != nil {
			return nil, err
		}
		c.Data = append(c.Data, raw)
	}
	return c, nil
}

// get serves GET on one object.
func (s *server) get(kind *view.Kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("action") {
			w.Header().Set("Allow", http.MethodPost)
			fail(w, problemf(http.StatusMethodNotAllowed, "an action is asked for with POST"))
			return
		}
		raw, err := s.object(r, kind, r.PathValue("id"))
		if err != nil {
			fail(w, problemOf(err))
			return
		}
		writeJSON(w, r, raw)
	}
}

func (s *server) object(r *http.Request, kind *view.Kind, id string) (json.RawMessage, error) {
	ctx, caller, base := r.Context(), requestOf(r).caller, s.proxies.originOf(r).base()
	unknown := problemf(http.StatusNotFound, "%s %q does not exist", kind.Type, clip(id))
	if kind.Fixed {
		objects, err := s.fixed(ctx, caller, kind, base)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if object["id"] == id {
				return encode(object)
			}
		}
		return nil, unknown
	}
	namespace, name := "", id
	if kind.Namespaced {
		namespace, name, _ = strings.Cut(id, "/")
	}
	right := access.Right{Verb: toRead, Group: kind.Group, Resource: kind.Resource, Namespace: namespace, Name: name}
	if err := s.require(ctx, caller, right); err != nil {
		return nil, err
	}
	source, err := s.Feeds.Feed(ctx, kind)
	if err != nil {
		return nil, err
	}
	item := source.Get(id)
	if item == nil {
		return nil, unknown
	}
	look, err := s.lookOf(ctx, caller, kind, base, name)
	if err != nil {
		return nil, err
	}
	raw, err := look.render(item)
	if err != nil {
		return nil, err
	}
	return view.Exclude(raw, excludes(r.URL.Query()))
}

// look is how one caller sees the objects of one kind.
type look struct {
	kind           *view.Kind
	base           string
	update, remove bool
}

// lookOf asks for the rights that decide which actions and links are shown. For a list they
// are those over all nodes: who may change only some of them sees what is allowed on the
// node itself, at the price of one question instead of one for each.
func (s *server) lookOf(ctx context.Context, caller *access.Caller, kind *view.Kind, base, name string) (*look, error) {
	l := &look{kind: kind, base: base}
	if kind.Type != view.Nodes.Type {
		return l, nil
	}
	var err error
	if l.update, err = s.Authorizer.May(ctx, caller, access.Right{Verb: toChange, Resource: kind.Resource, Name: name}); err != nil {
		return nil, err
	}
	l.remove, err = s.Authorizer.May(ctx, caller, access.Right{Verb: "delete", Resource: kind.Resource, Name: name})
	return l, err
}

func (l *look) render(item *feed.Item) (json.RawMessage, error) {
	body, err := item.Body()
	if err != nil {
		return nil, err
	}
	self := l.base + view.Prefix + l.kind.Plural + "/" + item.ID
	links := map[string]string{"self": self}
	node, ok := item.Object.(*corev1.Node)
	if !ok {
		return view.Complete(body, nil, links)
	}
	links["view"] = l.base + "/api/v1/nodes/" + item.ID
	if l.update {
		links["update"] = self
	}
	if l.remove {
		links["remove"] = self
	}
	return view.Complete(body, l.offered(node, self), links)
}

// offered are the actions that make sense on the node and that the caller may ask for.
func (l *look) offered(node *corev1.Node, self string) map[string]string {
	offered := map[string]string{}
	for i := range actions {
		a := &actions[i]
		if (a.verb == toRead || l.update) && (a.shown == nil || a.shown(node)) {
			offered[a.name] = self + "?action=" + url.QueryEscape(a.name)
		}
	}
	return offered
}

// fixed returns the objects of a fixed kind, as the caller may see them.
func (s *server) fixed(ctx context.Context, caller *access.Caller, kind *view.Kind, base string) ([]map[string]any, error) {
	if kind.Type != view.Schemas.Type && kind.Type != view.Counts.Type {
		return view.Fixed(kind, base), nil
	}
	var schemas []map[string]any
	counts, revision := map[string]int{}, uint64(0)
	for i := range view.Kinds {
		k := &view.Kinds[i]
		if !k.Fixed {
			allowed, err := s.Authorizer.May(ctx, caller, listRight(k))
			if err != nil {
				return nil, err
			}
			if !allowed {
				continue
			}
			// Pods are not counted: nobody needs to have them watched for a number.
			if kind.Type == view.Counts.Type && k.Type != view.Pods.Type {
				source, err := s.Feeds.Feed(ctx, k)
				if err != nil {
					return nil, err
				}
				n, at := source.Count()
				counts[k.Type], revision = n, max(revision, at)
			}
		} else if n := len(view.Fixed(k, base)); n > 0 {
			counts[k.Type] = n
		}
		schemas = append(schemas, view.Schema(k, base))
	}
	if kind.Type == view.Schemas.Type {
		return schemas, nil
	}
	return []map[string]any{view.Count(base, counts, strconv.FormatUint(revision, 10))}, nil
}

func encodeAll(objects []map[string]any) ([]json.RawMessage, error) {
	all := make([]json.RawMessage, 0, len(objects))
	for _, object := range objects {
		raw, err := encode(object)
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return all, nil
}

func encode(object map[string]any) (json.RawMessage, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", object["id"], err)
	}
	return raw, nil
}

// excludes are the fields that the client does not want. Managed fields nobody gets.
func excludes(query url.Values) []string {
	var paths []string
	for _, path := range query["exclude"] {
		if path != "" && path != "metadata.managedFields" {
			paths = append(paths, path)
		}
	}
	return paths
}
