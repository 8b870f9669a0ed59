package labelsync

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// DefaultPrefix selects the labels that launcher pods get from their VMI.
const DefaultPrefix = maintenance.LabelPrefix

// kubevirtDomain and those below it are KubeVirt's: it refuses a change of some of
// these labels on a VMI, and finds pods by others.
const kubevirtDomain = "kubevirt.io"

// Settings say which labels are copied.
type Settings struct {
	keys   []string
	prefix string
}

// Keys checks the keys that are to be copied from VM to VMI beside the strategy's, and
// returns the whole list: the strategy is always the first.
func Keys(further []string) ([]string, error) {
	keys := []string{maintenance.LabelStrategy}
	for _, key := range further {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return nil, fmt.Errorf("%q is not the key of a label: %s", key, strings.Join(problems, "; "))
		}
		if domain, _, found := strings.Cut(key, "/"); found && reserved(domain) {
			return nil, fmt.Errorf("%q is KubeVirt's own: allowed are keys outside of %s", key, kubevirtDomain)
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// CheckPrefix checks the prefix of the labels that are copied from VMI to pod.
func CheckPrefix(prefix string) error {
	domain, found := strings.CutSuffix(prefix, "/")
	if problems := validation.IsDNS1123Subdomain(domain); !found || len(problems) > 0 {
		return fmt.Errorf("%q is not a domain with a slash behind it, like %q", prefix, DefaultPrefix)
	}
	if reserved(domain) {
		return fmt.Errorf("%q is KubeVirt's own: allowed are domains other than %s", prefix, kubevirtDomain)
	}
	return nil
}

func reserved(domain string) bool {
	return domain == kubevirtDomain || strings.HasSuffix(domain, "."+kubevirtDomain)
}

// NewSettings returns settings that have been checked; see Keys and CheckPrefix.
func NewSettings(further []string, prefix string) (Settings, error) {
	keys, err := Keys(further)
	if err != nil {
		return Settings{}, err
	}
	return Settings{keys: keys, prefix: prefix}, CheckPrefix(prefix)
}
