package collector_test

import (
	"context"
	"net"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// The protocols of the receiver.
const (
	grpc = "grpc"
	http = "http"
)

// freeAddress returns a loopback port on which no process listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// listen starts the OTLP receiver of a collector, which passes what it receives to next.
func listen(protocol, address string, next consumer.Traces) (shutdown func(context.Context) error, err error) {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	err = confmap.NewFromStringMap(map[string]any{
		"protocols": map[string]any{protocol: map[string]any{"endpoint": address}},
	}).Unmarshal(config)
	if err != nil {
		return nil, err
	}
	r, err := factory.CreateTraces(context.Background(), receivertest.NewNopSettings(factory.Type()), config, next)
	if err != nil {
		return nil, err
	}
	return r.Shutdown, r.Start(context.Background(), componenttest.NewNopHost())
}

// collect starts a collector for a test, and returns its address and the sink of its spans.
func collect(t *testing.T, protocol string) (address string, received *consumertest.TracesSink) {
	t.Helper()
	address, received = freeAddress(t), new(consumertest.TracesSink)
	shutdown, err := listen(protocol, address, received)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return address, received
}
