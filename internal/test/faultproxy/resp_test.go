package faultproxy

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// small is below every frame here that matters, so that values also arrive in pieces.
const small = 16

func TestReadFrameTakesOneValueWhole(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, frame := range []string{
		"+OK\r\n",
		"+\r\n",
		"-ERR " + long + "\r\n",
		":-42\r\n",
		"_\r\n",
		"#t\r\n",
		",3.14\r\n",
		"(3492890328409238509324850943850943825024385\r\n",
		"$0\r\n\r\n",
		"$-1\r\n",
		"$4\r\na\r\nb\r\n",
		"$100\r\n" + long + "\r\n",
		"!5\r\nERR x\r\n",
		"=7\r\ntxt:abc\r\n",
		"*0\r\n",
		"*-1\r\n",
		"*3\r\n:1\r\n*2\r\n$1\r\na\r\n_\r\n+OK\r\n",
		"~2\r\n:1\r\n:2\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
		">2\r\n+message\r\n+x\r\n",
		"|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n",
	} {
		const next = "+NEXT\r\n"
		r := bufio.NewReaderSize(strings.NewReader(frame+next), small)
		for _, want := range []string{frame, next} {
			if got, err := readFrame(r); string(got) != want || err != nil {
				t.Errorf("in %q: readFrame = %q, %v, want %q", frame, got, err, want)
			}
		}
		if _, err := readFrame(r); !errors.Is(err, io.EOF) {
			t.Errorf("after %q: %v, want EOF", frame, err)
		}
	}
}

func TestReadCommand(t *testing.T) {
	for _, tc := range []struct {
		in   string
		args []string
	}{
		{"PING\r\n", []string{"PING"}},
		{"SET  k v\r\n", []string{"SET", "k", "v"}},
		{"*1\r\n$4\r\nPING\r\n", []string{"PING"}},
		{"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n", []string{"SET", "", "a\r\nb"}},
	} {
		r := bufio.NewReaderSize(strings.NewReader(tc.in), small)
		frame, args, err := readCommand(r)
		if err != nil || string(frame) != tc.in {
			t.Errorf("readCommand(%q) = %q, %v", tc.in, frame, err)
		}
		var got []string
		for _, a := range args {
			got = append(got, string(a))
		}
		if !slices.Equal(got, tc.args) {
			t.Errorf("readCommand(%q) has arguments %q, want %q", tc.in, got, tc.args)
		}
	}
}

func TestWhatIsNotRESPIsAnError(t *testing.T) {
	for _, in := range []string{"HTTP/1.1 200 OK\r\n", "$x\r\n", "+OK\n", "\r\n", "*1\r\nPING\r\n"} {
		if _, err := readFrame(bufio.NewReaderSize(strings.NewReader(in), small)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("readFrame(%q): %v, want an error that shows it", in, err)
		}
	}
	for _, in := range []string{"*x\r\n", "*1\r\n+OK\r\n", "*1\r\n$x\r\n", "PING\n"} {
		if _, _, err := readCommand(bufio.NewReaderSize(strings.NewReader(in), small)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("readCommand(%q): %v, want an error that shows it", in, err)
		}
	}
}
