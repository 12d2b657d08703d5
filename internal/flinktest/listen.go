package flinktest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Listens returns the addresses on which a process accepts TCP connections, from /proc.
func Listens(pid int) (found []netip.AddrPort, err error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return nil, err
	}
	var sockets []string
	for _, f := range files {
		target, err := os.Readlink(filepath.Join(dir, "fd", f.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			sockets = append(sockets, strings.TrimSuffix(inode, "]"))
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		content, err := os.ReadFile(filepath.Join(dir, "net", table))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(content)) {
			const address, state, inode, listen = 1, 3, 9, "0A"
			fields := strings.Fields(line)
			if len(fields) <= inode || fields[state] != listen || !slices.Contains(sockets, fields[inode]) {
				continue
			}
			at, err := kernelAddress(fields[address])
			if err != nil {
				return nil, err
			}
			found = append(found, at)
		}
	}
	return found, nil
}

// kernelAddress parses the kernel's form of an address: words of 4 bytes in the byte order of the
// machine, and the port.
func kernelAddress(text string) (netip.AddrPort, error) {
	words, port, _ := strings.Cut(text, ":")
	ip, err := hex.DecodeString(words)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for i := 0; i+4 <= len(ip); i += 4 {
		binary.NativeEndian.PutUint32(ip[i:], binary.BigEndian.Uint32(ip[i:]))
	}
	p, err := hex.DecodeString(port)
	addr, ok := netip.AddrFromSlice(ip)
	if err != nil || !ok || len(p) != 2 {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address of /proc/net/tcp", text)
	}
	return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(p)), nil
}
