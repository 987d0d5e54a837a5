package main

import (
	"bytes"
	"os"
	"testing"
)

func TestTypesAreFresh(t *testing.T) {
	doc, err := os.ReadFile("../../../internal/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(doc)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../types.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("types.go is stale: run go generate ./client")
	}
}
