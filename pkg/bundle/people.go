package bundle

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A user is called by whatever his cluster takes: "Jane Doe", "CN=Jane Doe,OU=x". Names in
// quotes are left out as far as these go, and others up to the next blank.
const (
	quoted  = `"(?:[^"\\]|\\.)*"?|\\"[^"\\]*(?:\\")?`
	someone = `(?:` + quoted + `|[^\s",;\\][^\s"]*)`
)

// people are where texts of Drydock and of the API server name who did something.
var people = regexp.MustCompile(`(requested by |\b(?:user|username|by)=|"(?:user|username|by|requestedBy)":\s*)` + someone + `|(\bUser )(?:` + quoted + `)`)

func withoutPeople(text string) string {
	return people.ReplaceAllString(text, `${1}${2}"`+leftOut+`"`)
}

// personal are the fields of Drydock's log whose value is somebody's name.
var personal = map[string]bool{"user": true, "by": true, "username": true, "requestedBy": true}

// withoutPeopleInLog takes a log apart, line by line, since what is quoted in a message is
// quoted once more where that message is the value of a field.
func withoutPeopleInLog(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		text, end := strings.CutSuffix(line, "\n")
		b.WriteString(logLine(text))
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// logLine is a line of --log-format=json or text without names of people, and of any other
// text what withoutPeople makes of it. The API server puts the time before each.
func logLine(line string) string {
	stamp, rest, found := strings.Cut(line, " ")
	if _, err := time.Parse(time.RFC3339Nano, stamp); !found || err != nil {
		stamp, rest = "", line
	} else {
		stamp += " "
	}
	if strings.HasPrefix(rest, "{") {
		if redacted, ok := logObject(rest); ok {
			return stamp + redacted
		}
	}
	if pairs.MatchString(rest) {
		return stamp + pair.ReplaceAllStringFunc(rest, logPair)
	}
	return stamp + withoutPeople(rest)
}

// logObject is a line of JSON, whose fields the logger has sorted as well.
func logObject(text string) (string, bool) {
	var fields map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&fields) != nil || decoder.More() {
		return "", false
	}
	for key, value := range fields {
		if text, isText := value.(string); personal[key] && (!isText || text != "") {
			fields[key] = leftOut
			continue
		}
		fields[key] = texts(value)
	}
	raw, err := json.Marshal(fields)
	return string(bytes.TrimSpace(raw)), err == nil
}

// pair is a field of a line of text, pairs a line of nothing else.
var (
	pair  = regexp.MustCompile(`([\w.-]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)`)
	pairs = regexp.MustCompile(`^(?:` + pair.String() + `(?:\s+|$))+$`)
)

func logPair(field string) string {
	key, value, _ := strings.Cut(field, "=")
	switch {
	case personal[key] && value != "":
		return key + "=" + strconv.Quote(leftOut)
	case !strings.HasPrefix(value, `"`):
		return field
	}
	text, err := strconv.Unquote(value)
	if err != nil {
		return key + "=" + withoutPeople(value)
	}
	return key + "=" + strconv.Quote(withoutPeople(text))
}
