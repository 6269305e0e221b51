-- `:checkhealth apply-service` looks for a module of this name.
return require("apply_service.health")
