package adapter

import (
	"context"
	"errors"
	"net/http"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

type clientKey struct{}

// WithActivation returns a context whose requests through [HTTPClient] belong to an
// activation.
func WithActivation(ctx context.Context, act *agent.Activation) context.Context {
	return context.WithValue(ctx, clientKey{}, act.HTTPClient())
}

// HTTPClient returns a client for all activations. A request is sent with the client of the
// activation in its context. A request without one fails.
func HTTPClient() *http.Client { return &http.Client{Transport: transport{}} }

type transport struct{}

func (transport) RoundTrip(req *http.Request) (*http.Response, error) {
	client, ok := req.Context().Value(clientKey{}).(*http.Client)
	if !ok {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, errors.New("adapter: there is no activation in the context of the request")
	}
	return client.Transport.RoundTrip(req)
}
