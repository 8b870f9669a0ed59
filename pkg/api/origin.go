package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// proxies are the addresses whose word on where a request came from is believed.
type proxies []netip.Prefix

func (p proxies) trusts(r *http.Request) bool {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	for _, prefix := range p {
		if prefix.Contains(address.Addr().Unmap()) {
			return true
		}
	}
	return false
}

// origin is how the client addresses this server: scheme, host and a path before its own.
type origin struct{ scheme, host, prefix string }

func (o origin) base() string { return o.scheme + "://" + o.host + o.prefix }

var (
	hostPattern   = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?$`)
	prefixPattern = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)
)

// originOf reads where the request came to. Headers of proxies are believed from those
// that are configured alone: anybody else could make links, which front-ends follow with
// the caller's credentials, lead anywhere.
func (p proxies) originOf(r *http.Request) origin {
	o := origin{scheme: "https", host: r.Host}
	if r.TLS == nil {
		o.scheme = "http"
	}
	if p.trusts(r) {
		if host := first(r.Header, "X-API-Host", "X-Forwarded-Host"); hostPattern.MatchString(host) {
			o.host = host
		}
		if scheme := strings.ToLower(first(r.Header, "X-Forwarded-Proto")); scheme == "http" || scheme == "https" {
			o.scheme = scheme
		}
		if prefix := strings.TrimSuffix(first(r.Header, "X-API-URL-Prefix"), "/"); prefixPattern.MatchString(prefix) {
			o.prefix = prefix
		}
	}
	if !hostPattern.MatchString(o.host) {
		o.host = "localhost"
	}
	return o
}

// first is the first value of the first header that has one; proxies in a row append.
func first(header http.Header, names ...string) string {
	for _, name := range names {
		value, _, _ := strings.Cut(header.Get(name), ",")
		if value = strings.TrimSpace(value); value != "" {
			return value
		}
	}
	return ""
}

// forgeable reports that another site's page may have made a browser send the request: it
// carries the browser's cookies, and nothing proves where it is from. A header that only
// the site's own script can set, or can set to the cookie's value, is proof.
func (p proxies) forgeable(r *http.Request) bool {
	if r.Header.Get("Cookie") == "" {
		return false
	}
	if proof := r.Header.Get("X-API-CSRF"); proof != "" {
		if cookie, err := r.Cookie("CSRF"); err == nil && cookie.Value == proof {
			return false
		}
	}
	return !p.sameOrigin(r)
}

func (p proxies) sameOrigin(r *http.Request) bool {
	from := r.Header.Get("Origin")
	if from == "" {
		from = r.Header.Get("Referer")
	}
	if from == "" {
		return r.Header.Get("Sec-Fetch-Site") == "same-origin"
	}
	page, err := url.Parse(from)
	if err != nil || page.Host == "" {
		return false
	}
	here := p.originOf(r)
	return strings.EqualFold(withPort(page.Host, page.Scheme), withPort(here.host, here.scheme))
}

// withPort spells out the port that a scheme implies.
func withPort(host, scheme string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	if scheme == "http" || scheme == "ws" {
		return host + ":80"
	}
	return host + ":443"
}
