package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// takeTurn uses the cluster of the first folder that no other package uses, or waits for
// the last one.
func (p *process) takeTurn(folders []string) error {
	for n, folder := range folders {
		last := n == len(folders)-1
		if taken, err := p.lock(filepath.Join(folder, "turn"), last); err != nil {
			return fmt.Errorf("taking a dev cluster in turn: %w", err)
		} else if taken {
			p.dir = filepath.Join(folder, "state")
			break
		}
	}
	if i, err := readInfo(p.dir); err == nil && i.Ready {
		return dismissRefusals(p.dir)
	}
	program, err := p.program()
	if err != nil {
		return err
	}
	if output, err := exec.Command(program, upIn(p.dir, "--detach")...).CombinedOutput(); err != nil {
		return fmt.Errorf("the dev cluster did not come up: %w\n%s", err, output)
	}
	return nil
}

// dismissRefusals takes from the hosts, which outlive tests, what those of the package before
// were told: a refusal stays until the next request.
func dismissRefusals(dir string) error {
	c := &Cluster{StateDir: dir}
	if err := c.connect(); err != nil {
		return err
	}
	ctx := context.Background()
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("hosts of the dev cluster: %w", err)
	}
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"$patch":"delete","type":%q}]}}`, maintenance.ConditionType)
	for n := range nodes.Items {
		if shown := maintenance.Condition(&nodes.Items[n]); shown == nil || shown.Status != corev1.ConditionFalse {
			continue
		}
		if _, err := c.Kube.CoreV1().Nodes().Patch(ctx, nodes.Items[n].Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("dismissing the refusal of host %s: %w", nodes.Items[n].Name, err)
		}
	}
	return nil
}

// lock takes the file for this process, whose end releases it. If another one has it, it
// is waited for or not taken.
func (p *process) lock(name string, wait bool) (bool, error) {
	file, err := os.Create(name)
	if err != nil {
		return false, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	if err := syscall.Flock(int(file.Fd()), how); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = nil
		}
		return false, err
	}
	p.turn = file
	return true, nil
}
