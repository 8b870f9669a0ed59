// Command chart writes what the schema of the chart's values says in two more places:
// values.yaml, which has the defaults and, as comments, the descriptions, and the table
// in the chart's README. The schema is where a value is added or changed.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// width is how long lines of values.yaml may be.
const width = 92

// Marks in the README around what is written here.
const (
	begin = "<!-- written by 'make generate' from values.schema.json -->\n"
	end   = "<!-- end -->\n"
)

func main() {
	if err := run(filepath.Join("charts", "drydock")); err != nil {
		log.Fatal(err)
	}
}

func run(chart string) error {
	raw, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	// JSON is YAML, and a YAML node keeps the order.
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	values, err := properties(document.Content[0], "")
	if err != nil {
		return err
	}
	var file, table strings.Builder
	file.WriteString("# Written by 'make generate' from values.schema.json: change that.\n")
	table.WriteString("| value | default | |\n| --- | --- | --- |\n")
	for _, v := range values {
		if err := v.write(&file, 0); err != nil {
			return err
		}
		if err := v.list(&table); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(chart, "values.yaml"), []byte(file.String()), 0o644); err != nil {
		return fmt.Errorf("values: %w", err)
	}
	return replace(filepath.Join(chart, "README.md"), table.String())
}

// value is one property of the schema.
type value struct {
	path, name, description string
	// fallback is nil for an object that is there for its parts.
	fallback *yaml.Node
	parts    []*value
}

func properties(schema *yaml.Node, prefix string) ([]*value, error) {
	list := field(schema, "properties")
	if list == nil {
		return nil, nil
	}
	var values []*value
	for i := 0; i < len(list.Content); i += 2 {
		name, property := list.Content[i].Value, list.Content[i+1]
		v := &value{path: prefix + name, name: name, fallback: field(property, "default")}
		description := field(property, "description")
		if description == nil || !strings.HasSuffix(description.Value, ".") {
			return nil, fmt.Errorf("values.schema.json: %s: has no description that ends with a full stop", v.path)
		}
		v.description = description.Value
		var err error
		if v.parts, err = properties(property, v.path+"."); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

func field(object *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1]
		}
	}
	return nil
}

// write adds the value to values.yaml.
func (v *value) write(b *strings.Builder, depth int) error {
	if v.fallback == nil && len(v.parts) == 0 {
		return nil
	}
	indent := strings.Repeat("  ", depth)
	if depth == 0 {
		b.WriteByte('\n')
	}
	for _, line := range wrap(v.description, width-len(indent)-2) {
		fmt.Fprintf(b, "%s# %s\n", indent, line)
	}
	if len(v.parts) > 0 {
		fmt.Fprintf(b, "%s%s:\n", indent, v.name)
		for _, part := range v.parts {
			if err := part.write(b, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	var text strings.Builder
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(map[string]*yaml.Node{v.name: block(v.fallback)}); err != nil {
		return fmt.Errorf("values.schema.json: %s: default: %w", v.path, err)
	}
	for line := range strings.Lines(text.String()) {
		b.WriteString(indent + line)
	}
	return nil
}

// block takes the style of JSON off what has parts.
func block(n *yaml.Node) *yaml.Node {
	if len(n.Content) > 0 {
		n.Style &^= yaml.FlowStyle
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value != "" {
		n.Style = 0
	}
	for _, part := range n.Content {
		block(part)
	}
	return n
}

// list adds the value to the table.
func (v *value) list(b *strings.Builder) error {
	for _, part := range v.parts {
		if err := part.list(b); err != nil {
			return err
		}
	}
	if v.fallback == nil || len(v.parts) > 0 {
		return nil
	}
	fallback := "see values.yaml"
	if len(v.fallback.Content) == 0 {
		raw, err := yaml.Marshal(v.fallback)
		if err != nil {
			return fmt.Errorf("values.schema.json: %s: default: %w", v.path, err)
		}
		fallback = "`" + strings.TrimSpace(string(raw)) + "`"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", v.path, fallback, strings.ReplaceAll(v.description, "|", `\|`))
	return nil
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// replace puts the table between the marks.
func replace(path, table string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("README: %w", err)
	}
	before, rest, found := strings.Cut(string(raw), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s: the marks %q and %q are not there", path, begin, end)
	}
	if err := os.WriteFile(path, []byte(before+begin+table+end+after), 0o644); err != nil {
		return fmt.Errorf("README: %w", err)
	}
	return nil
}
