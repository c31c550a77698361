//go:build !unix

package e2e

const canProve = false

func (c *child) reap()      {}
func (c *child) kill()      {}
func (c *child) halt()      {}
func (c *child) resume()    {}
func (c *child) terminate() {}

func sameFilesystem(string, string) bool { return true }
