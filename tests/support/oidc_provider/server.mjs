// A provider for tests, by npm's `oidc-provider`: users with groups, a client for people and one for
// programs. Settings come as JSON in the first argument: {port, jwks, groups: {subject: [group]}}.
import Provider from 'oidc-provider';

const {port, jwks, groups} = JSON.parse(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;

const provider = new Provider(issuer, {
  jwks,
  clients: [
    {
      client_id: 'herma-people',
      client_secret: 'people-secret-of-a-test',
      redirect_uris: ['http://127.0.0.1:9/callback'],
      id_token_signed_response_alg: 'ES256',
    },
    {
      client_id: 'herma-programs',
      client_secret: 'programs-secret-of-a-test',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      id_token_signed_response_alg: 'ES256',
    },
  ],
  claims: {openid: ['sub', 'groups', 'name']},
  conformIdTokenClaims: false,
  findAccount: (_context, subject) => ({
    accountId: subject,
    claims: () => ({sub: subject, name: `The user ${subject}`, groups: groups[subject] ?? []}),
  }),
  features: {
    devInteractions: {enabled: true},
    clientCredentials: {enabled: true},
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_context, resource) => ({
        scope: 'use',
        audience: resource,
        accessTokenFormat: 'jwt',
        jwt: {sign: {alg: 'ES256'}},
      }),
    },
  },
  cookies: {keys: ['a-key-of-a-test']},
  ttl: {IdToken: 300, ClientCredentials: 300},
});

provider.listen(port, '127.0.0.1', () => console.log('serving'));
