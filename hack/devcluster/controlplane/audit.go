package controlplane

import (
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"
)

// AuditedGroup is the group whose members' requests are always logged. A test
// that wants to count what its client costs makes a user of its own in it,
// without having to name that user when the cluster boots.
const AuditedGroup = "sim.drydock.dev:audited"

// WriteAuditPolicy logs the requests of users, and of the members of
// AuditedGroup, at Metadata level when they are answered, and nobody else's.
func WriteAuditPolicy(file string, users []string) error {
	policy := auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived},
		Rules:      []auditv1.PolicyRule{{Level: auditv1.LevelMetadata, UserGroups: []string{AuditedGroup}}},
	}
	// A rule without users would match everybody.
	if len(users) > 0 {
		policy.Rules = append(policy.Rules, auditv1.PolicyRule{Level: auditv1.LevelMetadata, Users: users})
	}
	policy.Rules = append(policy.Rules, auditv1.PolicyRule{Level: auditv1.LevelNone})
	content, err := yaml.Marshal(policy)
	if err != nil {
		return fmt.Errorf("encoding the audit policy: %w", err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}
