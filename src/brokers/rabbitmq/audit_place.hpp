#pragma once
// An exchange of the auditor's own, with two queues: one keeps everything for the end, from the other one
// what comes is read at once.

#include "brokers/audit_place.hpp"

namespace baton::brokers {

std::unique_ptr<AuditPlace> make_rabbitmq_place(const PlaceRequest& request);

}  // namespace baton::brokers
