// Package pty gives a test a terminal and the keyboard of the person in front of it.
package pty
