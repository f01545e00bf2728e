package faults

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

func TestReadMessageFindsWhereEachEnds(t *testing.T) {
	messages := []string{
		"+OK\r\n",
		"-ERR no\r\n",
		":-12\r\n",
		"$0\r\n\r\n",
		"$5\r\na\r\nbc\r\n",
		"$-1\r\n",
		"*-1\r\n",
		"*0\r\n",
		"*2\r\n*2\r\n:1\r\n$1\r\na\r\n+x\r\n",
		"%1\r\n+key\r\n*1\r\n_\r\n",
		"~2\r\n#t\r\n,1.5\r\n",
		">2\r\n+message\r\n(123456789012345678901234567890\r\n",
		"=7\r\ntxt:a\r\n\r\n",
		"!5\r\nERR x\r\n",
		"|1\r\n+ttl\r\n:9\r\n$1\r\nv\r\n",
	}
	r := bufio.NewReaderSize(strings.NewReader(strings.Join(messages, "")), 16)
	for _, want := range messages {
		got, err := readMessage(r)
		if err != nil || string(got) != want {
			t.Fatalf("read %q, %v; want %q", got, err, want)
		}
	}
	if _, err := readMessage(r); err != io.EOF {
		t.Errorf("at the end: %v, want EOF", err)
	}
}

func TestCommandIsTheFirstWordInLowerCase(t *testing.T) {
	for request, want := range map[string]string{
		"*1\r\n$4\r\nPING\r\n":                     "ping",
		"*3\r\n$7\r\nEvalSha\r\n$1\r\na\r\n:0\r\n": "evalsha",
		"*0\r\n": "",
		"*2\r\n$3\r\nGET\r\n$9\r\n\r\n$4\r\nDEL\r\n": "get",
	} {
		if got := command([]byte(request)); got != want {
			t.Errorf("command of %q = %q, want %q", request, got, want)
		}
	}
}
