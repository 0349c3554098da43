"""Broker keys of TLS, SASL, authorization and delegation tokens (format: config_keys.py)."""

from typing import Final

SECURITY: Final = """
authorizer.class.name STRING ""
    ?

connection.failed.authentication.delay.ms INT 100 valid=0..
    ?

connections.max.reauth.ms LONG 0
    ?

delegation.token.expiry.check.interval.ms LONG 3600000 valid=1..
    ?

delegation.token.expiry.time.ms LONG 86400000 valid=1..
    ?

delegation.token.max.lifetime.ms LONG 604800000 valid=1..
    ?

delegation.token.secret.key PASSWORD null
    ?

principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder dynamic=broker
    ?

sasl.client.callback.handler.class CLASS null
    ?

sasl.enabled.mechanisms LIST GSSAPI dynamic=broker
    ?

sasl.jaas.config PASSWORD null dynamic=broker
    ?

sasl.kerberos.kinit.cmd STRING /usr/bin/kinit dynamic=broker
    ?

sasl.kerberos.min.time.before.relogin LONG 60000 dynamic=broker
    ?

sasl.kerberos.principal.to.local.rules LIST DEFAULT dynamic=broker
    ?

sasl.kerberos.service.name STRING null dynamic=broker
    ?

sasl.kerberos.ticket.renew.jitter DOUBLE 0.05 dynamic=broker
    ?

sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8 dynamic=broker
    ?

sasl.login.callback.handler.class CLASS null
    ?

sasl.login.class CLASS null
    ?

sasl.login.connect.timeout.ms INT null
    ?

sasl.login.read.timeout.ms INT null
    ?

sasl.login.refresh.buffer.seconds SHORT 300 dynamic=broker
    ?

sasl.login.refresh.min.period.seconds SHORT 60 dynamic=broker
    ?

sasl.login.refresh.window.factor DOUBLE 0.8 dynamic=broker
    ?

sasl.login.refresh.window.jitter DOUBLE 0.05 dynamic=broker
    ?

sasl.login.retry.backoff.max.ms LONG 10000
    ?

sasl.login.retry.backoff.ms LONG 100
    ?

sasl.mechanism.controller.protocol STRING GSSAPI
    ?

sasl.mechanism.inter.broker.protocol STRING GSSAPI dynamic=broker
    ?

sasl.oauthbearer.assertion.algorithm STRING RS256 valid=~ES256,RS256
    ?

sasl.oauthbearer.assertion.claim.aud STRING null
    ?

sasl.oauthbearer.assertion.claim.exp.seconds INT 300 valid=0..86400
    ?

sasl.oauthbearer.assertion.claim.iss STRING null
    ?

sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false
    ?

sasl.oauthbearer.assertion.claim.nbf.seconds INT 60 valid=0..3600
    ?

sasl.oauthbearer.assertion.claim.sub STRING null
    ?

sasl.oauthbearer.assertion.file STRING null
    ?

sasl.oauthbearer.assertion.private.key.file STRING null
    ?

sasl.oauthbearer.assertion.private.key.passphrase PASSWORD null
    ?

sasl.oauthbearer.assertion.template.file STRING null
    ?

sasl.oauthbearer.client.credentials.client.id STRING null
    ?

sasl.oauthbearer.client.credentials.client.secret PASSWORD null
    ?

sasl.oauthbearer.clock.skew.seconds INT 30
    ?

sasl.oauthbearer.expected.audience LIST ""
    ?

sasl.oauthbearer.expected.issuer STRING null
    ?

sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000
    ?

sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000
    ?

sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100
    ?

sasl.oauthbearer.jwks.endpoint.url STRING null
    ?

sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    ?

sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    ?

sasl.oauthbearer.scope STRING null
    ?

sasl.oauthbearer.scope.claim.name STRING scope
    ?

sasl.oauthbearer.sub.claim.name STRING sub
    ?

sasl.oauthbearer.token.endpoint.url STRING null
    ?

sasl.server.callback.handler.class CLASS null
    ?

sasl.server.max.receive.size INT 524288
    ?

security.inter.broker.protocol STRING PLAINTEXT valid=PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL
    ?

security.providers STRING null
    ?

ssl.allow.dn.changes BOOLEAN false
    ?

ssl.allow.san.changes BOOLEAN false
    ?

ssl.cipher.suites LIST "" dynamic=broker
    ?

ssl.client.auth STRING none valid=required,requested,none dynamic=broker
    ?

ssl.enabled.protocols LIST TLSv1.2,TLSv1.3 dynamic=broker
    ?

ssl.endpoint.identification.algorithm STRING https dynamic=broker
    ?

ssl.engine.factory.class CLASS null dynamic=broker
    ?

ssl.key.password PASSWORD null dynamic=broker
    ?

ssl.keymanager.algorithm STRING SunX509 dynamic=broker
    ?

ssl.keystore.certificate.chain PASSWORD null dynamic=broker
    ?

ssl.keystore.key PASSWORD null dynamic=broker
    ?

ssl.keystore.location STRING null dynamic=broker
    ?

ssl.keystore.password PASSWORD null dynamic=broker
    ?

ssl.keystore.type STRING JKS dynamic=broker
    ?

ssl.principal.mapping.rules STRING DEFAULT
    ?

ssl.protocol STRING TLSv1.3 dynamic=broker
    ?

ssl.provider STRING null dynamic=broker
    ?

ssl.secure.random.implementation STRING null dynamic=broker
    ?

ssl.trustmanager.algorithm STRING PKIX dynamic=broker
    ?

ssl.truststore.certificates PASSWORD null dynamic=broker
    ?

ssl.truststore.location STRING null dynamic=broker
    ?

ssl.truststore.password PASSWORD null dynamic=broker
    ?

ssl.truststore.type STRING JKS dynamic=broker
    ?
"""
