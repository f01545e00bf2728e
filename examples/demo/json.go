package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// maxBody is more than any of the demo's requests has.
const maxBody = 4 << 10

// A statusError is an error that is answered with a status of its own.
type statusError struct {
	status int
	error
}

// readJSON reads a body that has to be one JSON object of known fields.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return statusError{http.StatusUnsupportedMediaType, errors.New("the body has to be application/json")}
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return statusError{http.StatusRequestEntityTooLarge, fmt.Errorf("the body is longer than %d bytes", maxBody)}
	}
	if err != nil {
		return fmt.Errorf("the body is not what is expected here: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body goes on after its JSON object")
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// writeError answers with 400 unless the error has a status.
func writeError(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	if with := (statusError{}); errors.As(err, &with) {
		status = with.status
	}
	writeJSON(w, status, map[string]string{"error": err.Error()})
}
