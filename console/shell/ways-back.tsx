/** The ways on from a page that is not there. */
import { Button, Group } from '@mantine/core';
import { useCanGoBack, useRouter } from '@tanstack/react-router';
import { PageButton } from './page-button.tsx';

export function WaysBack() {
  const { history } = useRouter();
  const canGoBack = useCanGoBack();
  return (
    <Group>
      {canGoBack ? <Button onClick={() => history.back()}>Go back</Button> : null}
      <PageButton to="/catalog" variant="default">
        Go to the catalog
      </PageButton>
    </Group>
  );
}
