// Package pty gives a test a terminal and its keyboard.
package pty
