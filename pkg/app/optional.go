package app

import (
	"context"
	"errors"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/sirupsen/logrus"
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

// longhorn serves volumes while Longhorn's CRDs are there. Its caches have a factory
// of their own, since lasso cannot stop a single cache.
func (m *manager) longhorn(ctx context.Context, c *maintenancecontroller.Controller) {
	log := logrus.WithField("system", "longhorn")
	factory, err := controllerFactory(m.config)
	if err != nil {
		log.WithError(err).Error("volumes are not checked")
		return
	}
	lh, err := longhorncontrollers.NewFactoryFromConfigWithOptions(m.config, &generic.FactoryOptions{SharedControllerFactory: factory})
	if err != nil {
		log.WithError(err).Error("volumes are not checked")
		return
	}
	v1beta2 := lh.Longhorn().V1beta2()
	reader := longhorn.NewReader(v1beta2, m.crds.established("volumeattachments.longhorn.io"))
	if err := errors.Join(
		c.WatchStorage(v1beta2.Replica().Informer(), longhorn.ReplicaChanged),
		c.WatchStorage(v1beta2.Volume().Informer(), longhorn.VolumeChanged),
	); err != nil {
		log.WithError(err).Error("volumes are not checked")
		return
	}
	// Started, though it has no handlers: lasso queues every event of a cache whose
	// controller was never started, for ever.
	if err := factory.Start(ctx, 1); err != nil {
		log.WithError(err).Error("volumes are not checked")
		return
	}
	m.storage.Store(reader)
	c.Reconsider()
	log.Info("volumes are checked")
	context.AfterFunc(ctx, func() {
		m.storage.Store(nil)
		log.Info("volumes are not checked any more")
	})
}

// harvester serves upgrades while Harvester's CRDs are there.
func (m *manager) harvester(ctx context.Context, c *maintenancecontroller.Controller) {
	log := logrus.WithField("system", "harvester")
	client, err := dynamic.NewForConfig(m.config)
	if err != nil {
		log.WithError(err).Error("upgrades are not checked")
		return
	}
	upgrades, err := harvester.WatchUpgrades(ctx, client)
	if err != nil {
		log.WithError(err).Error("upgrades are not checked")
		return
	}
	m.upgrades.Store(upgrades)
	c.Reconsider()
	log.Info("upgrades are checked")
	context.AfterFunc(ctx, func() {
		m.upgrades.Store(nil)
		log.Info("upgrades are not checked any more")
	})
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
