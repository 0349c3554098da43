"""Broker keys of TLS, SASL, authorization and delegation tokens (format: keys.py)."""

from typing import Final

SECURITY: Final = """
authorizer.class.name STRING ""
    The class that authorizes requests; if it is empty, everyone may do everything.

connection.failed.authentication.delay.ms INT 100 valid=0..
    How long a connection that failed to authenticate is held before it is closed, in ms, to slow
    down guessing.

connections.max.reauth.ms LONG 0
    How long a SASL session lasts before the client must authenticate again, in ms; 0 never asks for
    it.

delegation.token.expiry.check.interval.ms LONG 3600000 valid=1..
    How often expired delegation tokens are removed, in ms.

delegation.token.expiry.time.ms LONG 86400000 valid=1..
    How long a delegation token is valid before it must be renewed, in ms.

delegation.token.max.lifetime.ms LONG 604800000 valid=1..
    The maximum lifetime of a delegation token, including renewals, in ms.

delegation.token.secret.key PASSWORD null
    The secret with which all brokers create and check delegation tokens; it must be the same on
    each of them.

principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder dynamic=broker
    The class that derives the principal of a connection.

sasl.client.callback.handler.class CLASS null
    The class that answers what a SASL mechanism asks when this broker is the client.

sasl.enabled.mechanisms LIST GSSAPI dynamic=broker
    The SASL mechanisms that clients may use here.

sasl.jaas.config PASSWORD null dynamic=broker
    The login context of a SASL mechanism, in JAAS's notation.

sasl.kerberos.kinit.cmd STRING /usr/bin/kinit dynamic=broker
    The path of the command that obtains a Kerberos ticket.

sasl.kerberos.min.time.before.relogin LONG 60000 dynamic=broker
    The least time between two attempts to renew a Kerberos login, in ms.

sasl.kerberos.principal.to.local.rules LIST DEFAULT dynamic=broker
    Rules that turn Kerberos principals into short names; the first match applies.

sasl.kerberos.service.name STRING null dynamic=broker
    The Kerberos name under which brokers run.

sasl.kerberos.ticket.renew.jitter DOUBLE 0.05 dynamic=broker
    The share of random time added to the renewal of a Kerberos ticket.

sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8 dynamic=broker
    The share of a Kerberos ticket's life after which it is renewed.

sasl.login.callback.handler.class CLASS null
    The class that answers what a SASL login asks.

sasl.login.class CLASS null
    The class that performs a SASL login.

sasl.login.connect.timeout.ms INT null
    How long to wait for a connection to the authentication provider, in ms.

sasl.login.read.timeout.ms INT null
    How long to wait for the authentication provider's answer, in ms.

sasl.login.refresh.buffer.seconds SHORT 300 dynamic=broker
    How many seconds before it expires a credential is refreshed at the latest.

sasl.login.refresh.min.period.seconds SHORT 60 dynamic=broker
    The least time between two refreshes of a credential, in seconds.

sasl.login.refresh.window.factor DOUBLE 0.8 dynamic=broker
    The share of a credential's life after which it is refreshed.

sasl.login.refresh.window.jitter DOUBLE 0.05 dynamic=broker
    The share of random time added to a credential's refresh.

sasl.login.retry.backoff.max.ms LONG 10000
    The longest wait between two attempts to log in, in ms.

sasl.login.retry.backoff.ms LONG 100
    The first wait between two attempts to log in, in ms; it doubles with each.

sasl.mechanism.controller.protocol STRING GSSAPI
    The SASL mechanism by which brokers reach controllers.

sasl.mechanism.inter.broker.protocol STRING GSSAPI dynamic=broker
    The SASL mechanism by which brokers reach each other.

sasl.oauthbearer.assertion.algorithm STRING RS256 valid=~ES256,RS256
    The algorithm that signs assertions to the token endpoint.

sasl.oauthbearer.assertion.claim.aud STRING null
    The audience that an assertion names.

sasl.oauthbearer.assertion.claim.exp.seconds INT 300 valid=0..86400
    How long an assertion is valid after its creation, in seconds.

sasl.oauthbearer.assertion.claim.iss STRING null
    The issuer that an assertion names.

sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false
    Whether each assertion carries its own id.

sasl.oauthbearer.assertion.claim.nbf.seconds INT 60 valid=0..3600
    How long before its creation an assertion is already valid, in seconds.

sasl.oauthbearer.assertion.claim.sub STRING null
    The subject that an assertion names.

sasl.oauthbearer.assertion.file STRING null
    A file with a complete assertion.

sasl.oauthbearer.assertion.private.key.file STRING null
    A file with the private key that signs assertions.

sasl.oauthbearer.assertion.private.key.passphrase PASSWORD null
    The passphrase of the key that signs assertions.

sasl.oauthbearer.assertion.template.file STRING null
    A file with claims and headers that every assertion gets.

sasl.oauthbearer.client.credentials.client.id STRING null
    The client id shown to the token endpoint.

sasl.oauthbearer.client.credentials.client.secret PASSWORD null
    The client secret shown to the token endpoint.

sasl.oauthbearer.clock.skew.seconds INT 30
    How far the clocks of provider and broker may differ, in seconds.

sasl.oauthbearer.expected.audience LIST ""
    Audiences; a token must name one of them.

sasl.oauthbearer.expected.issuer STRING null
    The issuer that a token must name.

sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000
    How long the provider's keys are used before they are fetched again, in ms.

sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000
    The longest wait between two attempts to fetch the provider's keys, in ms.

sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100
    The first wait between two attempts to fetch the provider's keys, in ms.

sasl.oauthbearer.jwks.endpoint.url STRING null
    The URL of the provider's keys.

sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    The class that obtains tokens.

sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    The class that checks tokens.

sasl.oauthbearer.scope STRING null
    The scope that is requested from the token endpoint.

sasl.oauthbearer.scope.claim.name STRING scope
    The claim of a token that holds its scope.

sasl.oauthbearer.sub.claim.name STRING sub
    The claim of a token that holds its subject.

sasl.oauthbearer.token.endpoint.url STRING null
    The URL where tokens are obtained.

sasl.server.callback.handler.class CLASS null
    The class that answers what a SASL mechanism asks of the broker.

sasl.server.max.receive.size INT 524288
    The largest SASL message that is accepted before a connection has authenticated, in bytes.

security.inter.broker.protocol STRING PLAINTEXT valid=PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL
    The security protocol by which brokers reach each other if no listener is named.

security.providers STRING null
    Classes that supply Java with security algorithms.

ssl.allow.dn.changes BOOLEAN false
    Whether a new keystore may hold a certificate of another distinguished name.

ssl.allow.san.changes BOOLEAN false
    Whether a new keystore may hold a certificate of other alternative names.

ssl.cipher.suites LIST "" dynamic=broker
    The cipher suites that TLS may use; empty allows all that are available.

ssl.client.auth STRING none valid=required,requested,none dynamic=broker
    Whether clients must, may or need not show a TLS certificate.

ssl.enabled.protocols LIST TLSv1.2,TLSv1.3 dynamic=broker
    The versions of TLS that a connection may use.

ssl.endpoint.identification.algorithm STRING https dynamic=broker
    How a server's name is checked against its certificate; empty turns the check off.

ssl.engine.factory.class CLASS null dynamic=broker
    The class that makes TLS engines.

ssl.key.password PASSWORD null dynamic=broker
    The password of the private key.

ssl.keymanager.algorithm STRING SunX509 dynamic=broker
    The algorithm of the key manager.

ssl.keystore.certificate.chain PASSWORD null dynamic=broker
    This broker's certificate and its chain, as PEM text.

ssl.keystore.key PASSWORD null dynamic=broker
    This broker's private key, as PEM text.

ssl.keystore.location STRING null dynamic=broker
    The file that holds this broker's key and certificate.

ssl.keystore.password PASSWORD null dynamic=broker
    The password of the keystore file.

ssl.keystore.type STRING JKS dynamic=broker
    The format of the keystore file.

ssl.principal.mapping.rules STRING DEFAULT
    Rules that turn a certificate's distinguished name into a short name.

ssl.protocol STRING TLSv1.3 dynamic=broker
    The version of TLS that contexts are made for.

ssl.provider STRING null dynamic=broker
    The Java provider of TLS.

ssl.secure.random.implementation STRING null dynamic=broker
    The random generator that TLS uses.

ssl.trustmanager.algorithm STRING PKIX dynamic=broker
    The algorithm of the trust manager.

ssl.truststore.certificates PASSWORD null dynamic=broker
    The certificates that are trusted, as PEM text.

ssl.truststore.location STRING null dynamic=broker
    The file that holds the certificates that are trusted.

ssl.truststore.password PASSWORD null dynamic=broker
    The password of the truststore file.

ssl.truststore.type STRING JKS dynamic=broker
    The format of the truststore file.
"""
