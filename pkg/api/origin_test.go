package api

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestLinksLeadWhereTheRequestCameFrom(t *testing.T) {
	t.Parallel()
	p := proxies{netip.MustParsePrefix("10.0.0.0/8")}
	for name, c := range map[string]struct {
		from   string
		header []string
		want   string
	}{
		"directly":                      {from: "192.0.2.1:5", want: "http://here:8443"},
		"directly, with headers":        {from: "192.0.2.1:5", header: []string{"X-API-Host", "evil", "X-API-URL-Prefix", "/x", "X-Forwarded-Proto", "https"}, want: "http://here:8443"},
		"through a proxy":               {from: "10.1.2.3:5", header: []string{"X-Forwarded-Host", "ui.example", "X-Forwarded-Proto", "https"}, want: "https://ui.example"},
		"X-API-Host comes first":        {from: "10.1.2.3:5", header: []string{"X-Forwarded-Host", "b", "X-API-Host", "a:1"}, want: "http://a:1"},
		"with a prefix":                 {from: "10.1.2.3:5", header: []string{"X-API-URL-Prefix", "/k8s/clusters/local/"}, want: "http://here:8443/k8s/clusters/local"},
		"through proxies in a row":      {from: "10.1.2.3:5", header: []string{"X-Forwarded-Host", "a, b"}, want: "http://a"},
		"a host that is none":           {from: "10.1.2.3:5", header: []string{"X-API-Host", "a/b?c"}, want: "http://here:8443"},
		"a prefix that is another host": {from: "10.1.2.3:5", header: []string{"X-API-URL-Prefix", "//evil/x"}, want: "http://here:8443"},
		"a prefix that breaks out":      {from: "10.1.2.3:5", header: []string{"X-API-URL-Prefix", `/"onload=`}, want: "http://here:8443"},
		"a scheme that is none":         {from: "10.1.2.3:5", header: []string{"X-Forwarded-Proto", "javascript"}, want: "http://here:8443"},
		"IPv6 in IPv4's form":           {from: "[::ffff:10.1.2.3]:5", header: []string{"X-API-Host", "[2001:db8::1]:443"}, want: "http://[2001:db8::1]:443"},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://here:8443/", nil)
		r.RemoteAddr = c.from
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Set(c.header[i], c.header[i+1])
		}
		if got := p.originOf(r).base(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAnotherSitesPageCannotAct(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header []string
		status int
	}{
		"a script with a token":        {status: 204},
		"a cookie alone":               {header: []string{"Cookie", "R_SESS=1"}, status: 403},
		"from another site":            {header: []string{"Cookie", "R_SESS=1", "Origin", "https://evil"}, status: 403},
		"from a sandboxed page":        {header: []string{"Cookie", "R_SESS=1", "Origin", "null"}, status: 403},
		"from this site":               {header: []string{"Cookie", "R_SESS=1", "Origin", "http://example.com"}, status: 204},
		"from another port":            {header: []string{"Cookie", "R_SESS=1", "Origin", "http://example.com:81"}, status: 403},
		"from this site's page":        {header: []string{"Cookie", "R_SESS=1", "Referer", "http://example.com/dashboard"}, status: 204},
		"the browser says so":          {header: []string{"Cookie", "R_SESS=1", "Sec-Fetch-Site", "same-origin"}, status: 204},
		"the browser says otherwise":   {header: []string{"Cookie", "R_SESS=1", "Sec-Fetch-Site", "cross-site"}, status: 403},
		"with the cookie's value":      {header: []string{"Cookie", "R_SESS=1; CSRF=abc", "X-API-CSRF", "abc", "Origin", "https://ui"}, status: 204},
		"with another value":           {header: []string{"Cookie", "R_SESS=1; CSRF=abc", "X-API-CSRF", "abd", "Origin", "https://evil"}, status: 403},
		"with a value, but no cookie":  {header: []string{"Cookie", "R_SESS=1", "X-API-CSRF", "abc", "Origin", "https://evil"}, status: 403},
		"with an empty value of both":  {header: []string{"Cookie", "R_SESS=1; CSRF=", "X-API-CSRF", "", "Origin", "https://evil"}, status: 403},
		"a lying proxy is not trusted": {header: []string{"Cookie", "R_SESS=1", "Origin", "https://evil", "X-API-Host", "evil"}, status: 403},
	} {
		w, h := newWorld(t, node("w1"), node("w2"))
		response, text := ask(t, h, "editor", http.MethodPost, nodes+"w1?action=cordon", "{}", c.header...)
		if response.StatusCode != c.status || (len(w.patches) > 0) != (c.status == 204) {
			t.Errorf("%s: %d %s, %d writes", name, response.StatusCode, text, len(w.patches))
		}
		if response, _ := ask(t, h, "editor", http.MethodGet, nodes+"w1", "", c.header...); response.StatusCode != http.StatusOK {
			t.Errorf("%s: reading is answered with %d", name, response.StatusCode)
		}
	}
}
