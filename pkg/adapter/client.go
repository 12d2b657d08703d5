package adapter

import (
	"context"
	"errors"
	"net/http"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

type clientKey struct{}

// WithActivation returns a context for requests through [HTTPClient] that belong to act.
func WithActivation(ctx context.Context, act *agent.Activation) context.Context {
	return context.WithValue(ctx, clientKey{}, act.HTTPClient())
}

// HTTPClient returns one client for all activations. It sends a request with the client of the
// activation in the context of the request. A request without an activation fails.
func HTTPClient() *http.Client { return &http.Client{Transport: transport{}} }

type transport struct{}

func (transport) RoundTrip(req *http.Request) (*http.Response, error) {
	client, ok := req.Context().Value(clientKey{}).(*http.Client)
	if !ok {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must close the body
		}
		return nil, errors.New("adapter: the context of the request has no activation: use adapter.WithActivation")
	}
	return client.Transport.RoundTrip(req)
}
