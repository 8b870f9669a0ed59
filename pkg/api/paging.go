package api

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"

	"github.com/drydock-dev/drydock/pkg/api/feed"
)

// page is the part of a list that is wanted: so many objects after a name, or the n-th
// page of so many.
type page struct {
	size, number int
	after        string
}

func pageOf(query url.Values) (page, error) {
	var p page
	for _, field := range []struct {
		name string
		into *int
	}{{"limit", &p.size}, {"pagesize", &p.size}, {"page", &p.number}} {
		value := query.Get(field.name)
		if value == "" {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return p, problemf(http.StatusUnprocessableEntity, "query parameter %s: %q is not allowed; it is a number from 0, 0 for no limit", field.name, clip(value))
		}
		*field.into = n
	}
	if token := query.Get("continue"); token != "" {
		after, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || len(after) == 0 {
			return p, problemf(http.StatusUnprocessableEntity, "query parameter continue: %q is not what an earlier answer had in its field continue", clip(token))
		}
		p.after = string(after)
	}
	return p, nil
}

// cut takes the page out of a list that is ordered by id. The token names the last object
// rather than a revision: it never becomes too old, and each object is as fresh as its page.
func (p page) cut(items []*feed.Item) (part []*feed.Item, token string, pages int) {
	if p.after != "" {
		for len(items) > 0 && items[0].ID <= p.after {
			items = items[1:]
		}
	}
	if p.size == 0 {
		return items, "", 0
	}
	pages = (len(items) + p.size - 1) / p.size
	if p.number > 1 {
		items = items[min(len(items), (p.number-1)*p.size):]
	}
	if len(items) <= p.size {
		return items, "", pages
	}
	items = items[:p.size]
	return items, base64.RawURLEncoding.EncodeToString([]byte(items[len(items)-1].ID)), pages
}
