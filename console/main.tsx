/** The console: composes theme, sign-in and pages. */
import '@fontsource-variable/inter';
import '@fontsource-variable/jetbrains-mono';
import '@mantine/core/styles.layer.css';
import '@mantine/notifications/styles.layer.css';
import './style/console.css';
import './style/lists.css';
import './style/activity.css';
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { queryClient } from './rest/query-client.ts';
import { router } from './router.tsx';
import { recoverLostFocus } from './shell/recover-focus.ts';
import { openSignInLink } from './sign-in/sign-in-link.ts';
import { SignInLinkDialog } from './sign-in/sign-in-link-dialog.tsx';
import { theme, variables } from './style/theme.ts';

const signInLink = await openSignInLink();
recoverLostFocus();
const root = document.getElementById('root');
if (!root) throw new Error('index.html has no #root');
createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} cssVariablesResolver={variables} defaultColorScheme="auto">
      <Notifications position="bottom-right" />
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
        <SignInLinkDialog first={signInLink} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
