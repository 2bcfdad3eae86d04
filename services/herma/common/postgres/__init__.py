"""PostgreSQL: pooled transactions under a tenant, migrations, notifications."""

from herma.common.postgres.database import Connection, Database, see_tenant
from herma.common.postgres.listener import Listener

__all__ = ["Connection", "Database", "Listener", "see_tenant"]
