package faults

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readMessage returns the bytes of one whole RESP message (versions 2 and 3), be it a request or a reply. Only the
// framing is understood: it is what tells where one ends and the next begins.
func readMessage(r *bufio.Reader) ([]byte, error) {
	return appendMessage(nil, r)
}

func appendMessage(message []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	message = append(message, line...)
	text := strings.TrimRight(string(line[1:]), "\r\n")
	switch line[0] {
	case '$', '=', '!': // bulk string, verbatim string, bulk error: a length, then as many bytes and CR LF
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 { // -1 is the null of version 2
			return message, err
		}
		return appendBytes(message, r, n+2)
	case '*', '~', '>', '%', '|': // array, set, push; map and attribute, whose number counts pairs
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		if line[0] == '%' || line[0] == '|' {
			n *= 2
		}
		if line[0] == '|' {
			n++ // an attribute stands before the value it is about
		}
		for range n {
			if message, err = appendMessage(message, r); err != nil {
				return nil, err
			}
		}
		return message, nil
	case '+', '-', ':', '_', '#', ',', '(':
		return message, nil
	}
	return nil, fmt.Errorf("not RESP: %q", line)
}

func appendBytes(message []byte, r *bufio.Reader, n int) ([]byte, error) {
	start := len(message)
	message = append(message, make([]byte, n)...)
	_, err := io.ReadFull(r, message[start:])
	return message, err
}

// command returns the name of the command in a request, in lower case: its first bulk string.
func command(request []byte) string {
	lines := strings.SplitN(string(request), "\r\n", 4)
	if len(lines) < 4 {
		return ""
	}
	return strings.ToLower(lines[2])
}
