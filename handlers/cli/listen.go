package cli

import (
	"fmt"
	"net"
)

// Listen opens a listener and tells its base address, "http://127.0.0.1:8080".
func Listen(addr string) (l net.Listener, base string, err error) {
	if l, err = net.Listen("tcp", addr); err != nil {
		return nil, "", fmt.Errorf("can't listen on %s (%w): stop what uses it or give --addr another one", addr, err)
	}
	return l, "http://" + l.Addr().String(), nil
}
