package main

import (
	"io"
	"testing"
)

// Every figure can be measured: one round of each, at a size that takes a moment. At that size the goals mean nothing.
func TestFigures(t *testing.T) {
	t.Chdir("..") // the directory in which programs are built
	scale = 1e-6
	t.Cleanup(func() { scale = 1; removePrograms() })
	for _, f := range figures {
		t.Run(f.Name, func(t *testing.T) {
			if _, err := f.measure(t.Context(), 1, io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
}
