package bundle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
)

// pods reads the pods of nodes in maintenance, which may be what is waited for.
func (c *collector) pods(ctx context.Context) error {
	k := &kind{GroupVersionResource: resource("", "v1", "pods"), keep: keeping(podFields...)}
	var file bytes.Buffer
	for _, node := range c.engaged {
		err := c.each(ctx, k, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()},
			func(pod *unstructured.Unstructured) error { return c.put(&file, k, pod) })
		if err != nil {
			c.unread("pods on node "+node, err)
		}
	}
	if file.Len() == 0 {
		return nil
	}
	return c.archive.add("resources/pods.yaml", file.Bytes())
}

// told are the kinds whose events are kept; others have nothing to do with a drain.
var told = map[string]bool{
	"Node": true, "VirtualMachine": true, "VirtualMachineInstance": true, "VirtualMachineInstanceMigration": true, "Pod": true, "Lease": true, "Deployment": true,
}

// events reads the events about what takes part in a maintenance.
func (c *collector) events(ctx context.Context) error {
	k := &kind{GroupVersionResource: resource("", "v1", "events"), keep: keeping(eventFields...)}
	var file bytes.Buffer
	err := c.each(ctx, k, metav1.ListOptions{}, func(event *unstructured.Unstructured) error {
		about, _, _ := unstructured.NestedString(event.Object, "involvedObject", "kind")
		if !told[about] || !c.recent(event) {
			return nil
		}
		return c.put(&file, k, event)
	})
	if err != nil {
		c.unread("events", err)
	}
	if file.Len() == 0 {
		return nil
	}
	return c.archive.add("resources/events.yaml", file.Bytes())
}

// recent reports an event that is not older than asked for; one without a time counts.
func (c *collector) recent(event *unstructured.Unstructured) bool {
	if c.Since == 0 {
		return true
	}
	for _, field := range []string{"lastTimestamp", "eventTime", "firstTimestamp"} {
		text, _, _ := unstructured.NestedString(event.Object, field)
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return c.now.Sub(at) <= c.Since
		}
	}
	return true
}

const (
	logLines = 10000
	logBytes = 8 << 20
)

// logs reads the tail of the log of each of Drydock's pods, and of the container before
// where one has ended.
func (c *collector) logs(ctx context.Context) error {
	pods, err := c.Kube.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: drydockLabel})
	if err != nil {
		c.unread("logs", err)
		return nil
	}
	if len(pods.Items) == 0 {
		c.report.Unread = append(c.report.Unread, "logs: there is no pod with the label "+drydockLabel+" in namespace "+c.Namespace)
	}
	for n := range pods.Items {
		pod := &pods.Items[n]
		for i := range pod.Status.ContainerStatuses {
			status := &pod.Status.ContainerStatuses[i]
			if err := c.log(ctx, pod.Name, status.Name, false); err != nil {
				return err
			}
			if status.RestartCount > 0 {
				if err := c.log(ctx, pod.Name, status.Name, true); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *collector) log(ctx context.Context, pod, container string, previous bool) error {
	name := pod + "." + container
	if previous {
		name += ".previous"
	}
	ctx, cancel := context.WithTimeout(ctx, kindLimit)
	defer cancel()
	lines, limit, since := int64(logLines), int64(logBytes), int64(c.Since.Seconds())
	options := &corev1.PodLogOptions{Container: container, Previous: previous, TailLines: &lines, LimitBytes: &limit, Timestamps: true}
	if since > 0 {
		options.SinceSeconds = &since
	}
	stream, err := c.Kube.CoreV1().Pods(c.Namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		c.unread("log of "+name, err)
		return nil
	}
	defer stream.Close() //nolint:errcheck // only read from
	content, err := io.ReadAll(stream)
	if err != nil {
		c.unread("the rest of the log of "+name, err)
	}
	return c.archive.add("logs/"+name+".log", []byte(withoutPeopleInLog(string(content))))
}

const readme = `A support bundle of Drydock %s, made at %s.

resources/  objects of the cluster, one file for each kind, and events
plans/      record and progress of each node in maintenance
logs/       the end of the logs of Drydock's pods
unread.txt  what could not be read, and why

Of every object only listed fields are kept. Left out are, among others: Secrets and
ConfigMaps, cloud-init and sysprep data, SSH keys and other access credentials, networks
and addresses of VMs and nodes, kernel arguments, commands, arguments and environment of
containers (of Drydock's own Deployment the arguments and the names of variables are
kept), what a container said at its end, managedFields, CA bundles, the values of
annotations other than those of a maintenance, and who asked for maintenance.

Names of nodes, namespaces, VMs, pods and volumes are kept, and labels, images, and the
texts of conditions and events: look through them before you give them away.
`

// about writes what the archive is and what is missing in it.
func (c *collector) about(context.Context) error {
	versions := c.Version
	if server, err := c.Kube.Discovery().ServerVersion(); err != nil {
		c.unread("the version of the API server", err)
	} else {
		versions += " (Kubernetes " + server.GitVersion + ")"
	}
	missing := "everything that was asked for was read\n"
	if len(c.report.Unread) > 0 {
		missing = strings.Join(c.report.Unread, "\n") + "\n"
	}
	if err := c.archive.add("unread.txt", []byte(missing)); err != nil {
		return err
	}
	return c.archive.add("README.txt", []byte(fmt.Sprintf(readme, versions, c.now.UTC().Format(time.RFC3339))))
}
