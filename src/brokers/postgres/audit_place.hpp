#pragma once
// An inbox of the auditor's own.

#include "brokers/audit_place.hpp"

namespace baton::brokers {

std::unique_ptr<AuditPlace> make_postgres_place(const PlaceRequest& request);

}  // namespace baton::brokers
