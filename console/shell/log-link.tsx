/** A link to the log of an installation's plugin. */
import { PageLink } from './page-link.tsx';

interface LogLinkProps {
  readonly installationId: string;
  readonly children: string;
}

export const LogLink = ({ installationId, children }: LogLinkProps) => (
  <PageLink
    to="/installations/$id"
    params={{ id: installationId }}
    search={{ tab: 'logs' }}
    size="sm"
    underline="always"
  >
    {children}
  </PageLink>
);
