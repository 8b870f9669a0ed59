package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"k8s.io/client-go/dynamic"

	maintenancecontroller "github.com/drydock-dev/drydock/pkg/controllers/maintenance"
	"github.com/drydock-dev/drydock/pkg/gather"
	longhorncontrollers "github.com/drydock-dev/drydock/pkg/generated/controllers/longhorn.io"
	"github.com/drydock-dev/drydock/pkg/harvester"
	"github.com/drydock-dev/drydock/pkg/longhorn"
)

// volumes is the source of volumes, nil while Longhorn is not installed.
func (m *manager) volumes() gather.Storage {
	if reader := m.storage.Load(); reader != nil {
		return reader
	}
	return nil
}

// longhorn serves volumes until the context ends. Its caches have a factory of their own,
// since lasso cannot stop a single cache.
func (m *manager) longhorn(ctx context.Context, c *maintenancecontroller.Controller) error {
	factory, err := controllerFactory(m.config)
	if err != nil {
		return err
	}
	lh, err := longhorncontrollers.NewFactoryFromConfigWithOptions(m.config, &generic.FactoryOptions{SharedControllerFactory: factory})
	if err != nil {
		return fmt.Errorf("controllers of Longhorn: %w", err)
	}
	v1beta2 := lh.Longhorn().V1beta2()
	reader := longhorn.NewReader(v1beta2, m.crds.established("volumeattachments.longhorn.io"))
	if err := errors.Join(
		c.WatchStorage(v1beta2.Replica().Informer(), longhorn.ReplicaChanged),
		c.WatchStorage(v1beta2.Volume().Informer(), longhorn.VolumeChanged),
	); err != nil {
		return err
	}
	// Started, though it has no handlers: lasso queues every event of a cache whose
	// controller was never started, for ever.
	if err := factory.Start(ctx, 1); err != nil {
		return fmt.Errorf("caches of Longhorn: %w", err)
	}
	m.storage.Store(reader)
	c.Reconsider()
	context.AfterFunc(ctx, func() { m.storage.CompareAndSwap(reader, nil) })
	return nil
}

// harvester serves upgrades until the context ends.
func (m *manager) harvester(ctx context.Context, c *maintenancecontroller.Controller) error {
	client, err := dynamic.NewForConfig(m.config)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	upgrades, err := harvester.WatchUpgrades(ctx, client)
	if err != nil {
		return err
	}
	m.upgrades.Store(upgrades)
	c.Reconsider()
	context.AfterFunc(ctx, func() { m.upgrades.CompareAndSwap(upgrades, nil) })
	return nil
}

// upgrade names a Harvester upgrade in progress, "" for none.
func (m *manager) upgrade() string {
	if upgrades := m.upgrades.Load(); upgrades != nil {
		return upgrades.InProgress()
	}
	return ""
}

// pending names what is installed and not served yet. Whoever changes the answer has the
// controller reconsider what waits for it.
func (m *manager) pending() string {
	switch {
	case m.crds.established(longhornCRDs[0]) && m.storage.Load() == nil:
		return "Longhorn's volumes are"
	case m.crds.established(harvester.UpgradeCRD) && m.upgrades.Load() == nil:
		return "Harvester's upgrades are"
	}
	return ""
}

// possibleIsConsent says whether a template's LiveMigrateIfPossible allows an
// interruption: Harvester writes that value into every VM it makes, where it says
// nothing about the owner.
func (m *manager) possibleIsConsent() bool {
	switch m.options.PossibleIsConsent {
	case ConsentYes:
		return true
	case ConsentNo:
		return false
	}
	return !m.crds.established(harvester.UpgradeCRD)
}
