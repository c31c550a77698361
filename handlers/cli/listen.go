package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"syscall"
)

// Of the connections that clients may hold at once: at most mostConnections, and not more than half of the
// file descriptors that are left beside ownDescriptors, so that the file, the log and what goes out never lack
// one (TestDescriptorsUsedUp).
const (
	mostConnections = 2048
	ownDescriptors  = 128
)

// MayListen looks whether Listen would find the address free, before anything is done that a start which comes to
// nothing should not have done.
func MayListen(addr string) error {
	l, err := listen(addr)
	if err != nil {
		return err
	}
	return l.Close()
}

func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("can't listen on %s (%w): this machine has no such address; give one that it has, or 0.0.0.0 for all of them", addr, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("can't listen on %s (%w): give a port from 1024 on", addr, err)
	case err != nil:
		return nil, fmt.Errorf("can't listen on %s (%w): stop what uses it or give --addr another one", addr, err)
	}
	return l, nil
}

// Listen opens a listener and tells its base address, "http://127.0.0.1:8080". Beyond as many connections as
// the process can bear, a client waits until another one has gone; that is shared out among so many listeners.
func Listen(addr string, among int) (l net.Listener, base string, err error) {
	if l, err = listen(addr); err != nil {
		return nil, "", err
	}
	places := make(chan struct{}, max(1, connections(descriptors())/among))
	return &limited{Listener: l, places: places, closed: make(chan struct{})}, "http://" + l.Addr().String(), nil
}

// connections is how many there may be in a process that may have so many descriptors; 0 is not known.
func connections(descriptors uint64) int {
	if descriptors == 0 {
		return mostConnections
	}
	left := int64(min(descriptors, 1<<30)) - ownDescriptors
	return int(min(max(left/2, 8), mostConnections))
}

// limited is a listener that accepts only while there is a place.
type limited struct {
	net.Listener
	places chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// placed is a connection that gives its place back once.
type placed struct {
	net.Conn
	leave func()
}

func (p *placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}
