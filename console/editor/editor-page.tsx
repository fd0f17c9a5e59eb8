/** The editor page: the files of a plugin and a session to try its draft. */
import { Grid, Skeleton, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { usePlugin } from '../rest/plugins.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { Section } from '../shell/section.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { readEditablePackage } from './editable-package.ts';
import { FilesEditor } from './files-editor.tsx';
import { TryPanel } from './try-panel.tsx';

export function EditorPage() {
  const { id } = useParams({ from: '/plugins/$id/edit' });
  const { data: plugin } = usePlugin(id);
  const found = useQuery({
    queryKey: ['editor', id],
    queryFn: () => readEditablePackage(id),
    // Actions refetch all others. The editor has its own text by then. `gcTime: 0` loads the stored files on the next visit.
    staleTime: 'static',
    gcTime: 0,
  });
  // Not `found.error`: a failed refetch must not close the editor.
  if (!found.data && found.error) return <ErrorAlert isPage error={found.error} reset={() => void found.refetch()} />;
  if (!found.data) return <Skeleton height={400} aria-label="Loading" />;
  return (
    <Stack>
      <PageHeader
        title={escapeText(plugin?.displayName ?? found.data.displayName)}
        subtitle={
          <PageLink to="/plugins/$id" params={{ id }} size="sm">
            Versions and listing
          </PageLink>
        }
      />
      <Grid>
        <Grid.Col span={{ base: 12, lg: 8 }}>
          <FilesEditor pluginId={id} stored={found.data} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 4 }}>
          <Section title="Try the draft">
            <TryPanel pluginId={id} slug={found.data.slug} />
          </Section>
        </Grid.Col>
      </Grid>
    </Stack>
  );
}
