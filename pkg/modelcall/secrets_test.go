package modelcall_test

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// No text shows a credential, in whatever form the request has it.
func TestSecrets(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*http.Request)
		want   []string
	}{
		"a bearer":        {func(r *http.Request) { r.Header.Set("Authorization", "Bearer abcdef") }, []string{"Bearer abcdef", "abcdef"}},
		"an API key":      {func(r *http.Request) { r.Header.Set("X-Api-Key", "abcdef") }, []string{"abcdef"}},
		"Azure's key":     {func(r *http.Request) { r.Header.Set("Api-Key", "abcdef") }, []string{"abcdef"}},
		"cookies":         {func(r *http.Request) { r.Header.Set("Cookie", "a=abcdef; b=ghijkl") }, []string{"a=abcdef; b=ghijkl", "abcdef", "ghijkl"}},
		"a key":           {func(r *http.Request) { r.URL.RawQuery = "key=abcdef" }, []string{"abcdef"}},
		"an escaped key":  {func(r *http.Request) { r.URL.RawQuery = "API_KEY=abc%2Fdef" }, []string{"abc%2Fdef", "abc/def"}},
		"a token":         {func(r *http.Request) { r.URL.RawQuery = "a=b&access_token=abcdef" }, []string{"abcdef"}},
		"an escaped name": {func(r *http.Request) { r.URL.RawQuery = "%6bey=abcdef" }, []string{"abcdef"}},
		"a password":      {func(r *http.Request) { r.URL.User = url.UserPassword("me", "abc/def") }, []string{"abc%2Fdef", "abc/def"}},
		"a user alone":    {func(r *http.Request) { r.URL.User = url.User("abcdef") }, []string{"abcdef"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, jsonAnswer)
			c := b.begin()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			tt.change(req)
			resp, err := c.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			got := b.end(c).Secrets
			for _, want := range tt.want {
				if !slices.Contains(got, want) {
					t.Errorf("%q is not among %q", want, got)
				}
			}
		})
	}
}

// Many requests with one credential leave room for another one.
func TestManySecrets(t *testing.T) {
	b := newBench(t, jsonAnswer)
	c := b.begin()
	for i := range 100 {
		if _, err := b.ask(c, strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	req := b.request(t.Context(), http.MethodPost, `{}`)
	req.Header.Set("Authorization", "Bearer another-one")
	resp, err := c.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := b.end(c).Secrets; !slices.Contains(got, secret) || !slices.Contains(got, "another-one") {
		t.Errorf("secrets %q", got)
	}
}

// A redirect may contain a credential, and an error shows the address of the redirect.
func TestSecretsOfRedirects(t *testing.T) {
	for _, location := range []string{"http://127.0.0.1:1/?token=abcdef", "/%zz?token=abcdef", "http://me:abcdef@127.0.0.1:1/"} {
		b := newBench(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
			w.Header()["Location"] = []string{location}
			w.WriteHeader(http.StatusFound)
		})
		c := b.begin()
		_, err := b.ask(c, `{}`)
		if err == nil {
			t.Fatal("it leads somewhere")
		}
		text := err.Error()
		for _, s := range b.end(c).Secrets {
			text = strings.ReplaceAll(text, s, "[hidden]")
		}
		if strings.Contains(text, "abcdef") {
			t.Errorf("%q shows the credential", text)
		}
	}
}
