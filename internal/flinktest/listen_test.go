package flinktest

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
)

func TestListens(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // a machine without IPv6
			continue
		}
		all, err := Listens(os.Getpid())
		want := netip.MustParseAddrPort(l.Addr().String())
		if err != nil || !slices.Contains(all, want) {
			t.Errorf("%v, %v: %v is missing", all, err, want)
		}
		_ = l.Close() // a listener of this test
		if all, _ := Listens(os.Getpid()); slices.Contains(all, want) {
			t.Errorf("%v is closed, and still there", want)
		}
	}
}
