//go:build !unix

package smtptarget

import "net"

// silent cannot be found out here without waiting; a connection that has ended is noticed when it is used.
func silent(net.Conn) bool { return true }
