/** What is around every page: who is signed in, where one can go, and the page itself. */
import { AppShell, Burger, Group, NavLink, ScrollArea, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { Link, Outlet, useRouterState } from '@tanstack/react-router';
import { useEffect, useSyncExternalStore } from 'react';
import { useMe } from '../rest/me.ts';
import { SignInPage } from '../sign-in/sign-in-page.tsx';
import { onToken, readToken } from '../sign-in/token.ts';
import { AccountMenu } from './account-menu.tsx';
import { operatorPlaces, places } from './places.ts';

export function Frame() {
  const token = useSyncExternalStore(onToken, readToken);
  return token === null ? <SignInPage /> : <SignedIn />;
}

function SignedIn() {
  const [isOpen, { toggle, close }] = useDisclosure(false);
  const { data: me } = useMe();
  const here = useRouterState({ select: ({ location }) => location.pathname });
  // biome-ignore lint/correctness/useExhaustiveDependencies: the menu of a phone closes when the page changes
  useEffect(close, [here]);
  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 220, breakpoint: 'sm', collapsed: { mobile: !isOpen } }}
      padding="md"
    >
      <a className="skip-link" href="#page">
        Skip to the page
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="Menu" />
            <img src="/icon.svg" alt="" width={28} height={28} />
            <Text fw={700}>Bulkhead</Text>
          </Group>
          <AccountMenu />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Places">
        <ScrollArea>
          {[...places, ...(me?.operator ? operatorPlaces : [])].map(({ to, label, icon: Icon }) => (
            <NavLink
              key={to}
              component={Link}
              to={to}
              label={label}
              active={here.startsWith(to)}
              leftSection={<Icon size={18} stroke={1.6} aria-hidden />}
            />
          ))}
        </ScrollArea>
      </AppShell.Navbar>
      <AppShell.Main id="page" tabIndex={-1}>
        <div className="page">
          <Outlet />
        </div>
      </AppShell.Main>
    </AppShell>
  );
}
