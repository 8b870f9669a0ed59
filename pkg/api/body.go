package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// readBody reads an action's body: nothing, or one JSON object.
func readBody(r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problemf(http.StatusRequestEntityTooLarge, "body: is larger than %d bytes", tooLarge.Limit)
	case err != nil:
		return nil, problemf(http.StatusUnprocessableEntity, "body: cannot be read: %v", err)
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, nil
	}
	if _, err := fieldsOf(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// fieldsOf takes a body apart; none at all has no fields.
func fieldsOf(body []byte) (map[string]json.RawMessage, error) {
	if len(body) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, problemf(http.StatusUnprocessableEntity, "body: is not a JSON object: %v", err)
	}
	return fields, nil
}

// only returns the value of the one field that a body may have, nil without it.
func only(body []byte, field, allowed string) (json.RawMessage, error) {
	fields, err := fieldsOf(body)
	if err != nil {
		return nil, err
	}
	for name := range fields {
		if name != field {
			return nil, problemf(http.StatusUnprocessableEntity, "body: unknown field %q; there is %s, %s", clip(name), field, allowed)
		}
	}
	return fields[field], nil
}

// flag reads a field that is true or false. Front-ends send it as a string.
func flag(body []byte, field string) (bool, error) {
	const allowed = `true or false, also as a string`
	raw, err := only(body, field, allowed)
	if err != nil || raw == nil {
		return false, err
	}
	switch string(raw) {
	case "true", `"true"`:
		return true, nil
	case "false", `"false"`:
		return false, nil
	}
	return false, problemf(http.StatusUnprocessableEntity, "body field %s: %s is not allowed; it is %s", field, clip(string(raw)), allowed)
}

// oneOf reads a field that has one of some values, and must be there.
func oneOf(body []byte, field string, values ...string) (string, error) {
	quoted := make([]string, 0, len(values))
	for _, value := range values {
		quoted = append(quoted, fmt.Sprintf("%q", value))
	}
	allowed := "one of " + strings.Join(quoted, ", ")
	raw, err := only(body, field, allowed)
	if err != nil {
		return "", err
	}
	if raw == nil {
		return "", problemf(http.StatusUnprocessableEntity, "body field %s: is missing; it is %s", field, allowed)
	}
	var value string
	if json.Unmarshal(raw, &value) != nil || !slices.Contains(values, value) {
		return "", problemf(http.StatusUnprocessableEntity, "body field %s: %s is not allowed; it is %s", field, clip(string(raw)), allowed)
	}
	return value, nil
}
